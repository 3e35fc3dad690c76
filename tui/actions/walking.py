"""Actions of navigation through exchanges: marks, comments, jumps, following, finding, order and times."""

from __future__ import annotations

from kproxy.tui.actions.action import Action

WALKING: tuple[Action, ...] = (
    Action("walking.mark", "Mark", "Mark the exchange, or unmark it; kept beside the capture.", ("m",), "walking",
           "mark", bar=True),
    Action("walking.next-mark", "Next mark", "The next exchange with a mark or a comment.", ("apostrophe",), "walking",
           "next_mark"),
    Action("walking.next-finding", "Next finding",
           "The next exchange that proves a finding (! in the list); the Overview names the finding. Starts the search "
           "for findings if it has not begun.", ("exclamation_mark",), "walking", "next_finding", bar=True),
    Action("walking.unmark", "Unmark all", "Remove all marks; comments stay.", ("U",), "walking", "unmark_all"),
    Action("walking.comment", "Comment", "Write a comment on the exchange; kept beside the capture.", ("semicolon",),
           "walking", "comment"),
    Action("walking.go", "Go to",
           "Go to an exchange: its number, a clock (12:01:03.5), a date and time, or a distance (+5s, -2min).",
           ("ctrl+g",), "walking", "ask_where", bar=True),
    Action("walking.jump-back", "Jump back", "Go back to where the last jump began.", ("backspace",), "walking",
           "jump_back"),
    Action("walking.next-same", "Next on conn", "The next exchange on the same connection.", ("full_stop",), "walking",
           "same_connection(1)"),
    Action("walking.previous-same", "Previous on conn", "The exchange before on the same connection.", ("comma",),
           "walking", "same_connection(-1)"),
    Action("walking.follow", "Follow",
           "Show only the exchanges of a connection, partition, record key, group, transaction, producer id or "
           "client; going back shows what was shown before.",
           ("t",), "walking", "follow", bar=True),
    Action("walking.find", "Find",
           "Find a text, a /regular expression/ or bytes in hex (0x00ff) in the focused pane; hex in the list looks at "
           "the bytes of exchanges.",
           ("ctrl+f",), "finding", "ask_what", bar=True),
    Action("walking.next-found", "Next", "The next match.", ("n",), "finding", "found(1)"),
    Action("walking.previous-found", "Previous", "The previous match.", ("N",), "finding",
           "found(-1)"),
    Action("walking.times", "Times",
           "Show times as a clock, since the start, since the line above, since the previous exchange on the "
           "connection, since 1970.",
           ("T",), "walking", "times"),
    Action("walking.reference", "Reference", "Count times from this exchange; again for the start of the capture.",
           ("R",), "walking", "reference"),
    Action("list.order", "Order", "Order by latency, size, records, API, connection, error, or by number.",
           ("o",), "list", "order", bar=True),
    Action("list.reverse", "Reverse", "Reverse the order.", ("v",), "list", "reverse"),
    Action("list.marked", "Only marked", "Show only marked exchanges, or all again.", ("M",), "list",
           "only_marked", bar=True),
    Action("list.hide", "Hide", "Hide the exchange from the list; nothing is deleted.", ("d",), "list", "hide",
           bar=True),
    Action("list.show-hidden", "Show hidden", "Show hidden exchanges again.", ("u",), "list", "show_hidden",
           enabled=lambda pane: bool(pane.hidden)),
    Action("follow.connection", "Connection", "Exchanges on the same connection.", ("c",), "follow",
           "follow('connection')"),
    Action("follow.partition", "Partition", "Exchanges with the topic, and the partition of the field or record.",
           ("p",), "follow", "follow('partition')"),
    Action("follow.key", "Record key", "Exchanges with records of this key.", ("k",), "follow", "follow('key')"),
    Action("follow.group", "Group", "Exchanges that name the group.", ("g",), "follow", "follow('group')"),
    Action("follow.txn", "Transaction", "Exchanges that name the transactional id.", ("x",), "follow", "follow('txn')"),
    Action("follow.producer", "Producer id", "Exchanges with the producer id of the field or record.",
           ("i",), "follow", "follow('producer')"),
    Action("follow.client", "Client", "Exchanges of the client.", ("l",), "follow", "follow('client')"),
    Action("follow.close", "Back", "Leave without following.", ("escape", "q", "ctrl+c"), "follow", "close"),
)  # fmt: skip
