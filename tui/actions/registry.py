"""The registry of actions, from which bindings, help bar and help screen are made.

An action belongs to a context, which is a pane, a screen or the whole application; its handler is a Textual action of
that context's widget. A key has one meaning in a pane: keys of a screen work in all its panes, keys of "app" in all
screens, and no pane may use them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from string import ascii_uppercase
from typing import Any

from textual.binding import Binding, BindingType

from kproxy.captures.views import VIEWS
from kproxy.tui.actions.action import Action
from kproxy.tui.actions.exporting import EXPORTING
from kproxy.tui.actions.filtering import FILTERING
from kproxy.tui.actions.intercepting import INTERCEPTING
from kproxy.tui.actions.walking import WALKING

CONTEXTS = {
    "list": "Exchange list",
    "tree": "Fields",
    "hex": "Bytes",
    "overview": "Overview",
    "timing": "Timing",
    "records": "Records",
    "record": "Record",
    "filter": "Filter",
    "outline": "Lines",
    "stats": "Figures",
    "table": "Table",
    "held": "Intercepted frames",
    "find": "Input line",
    "help": "Help",
    "command": "Command",
    "menu": "Menu",
    "forms": "Joining filters",
    "columns": "Columns of the list",
    "compare": "Compare",
    "follow": "Follow",
    "export": "Export",
    "export-file": "File of the export",
    "filtering": "Filtering",
    "walking": "Navigation",
    "finding": "Finding",
    "exchanges": "Exchanges",
    "copying": "Copying",
    "exporting": "Exporting",
    "app": "Everywhere",
}
"""Contexts and their titles in the help screen."""


def _moves(context: str, what: str) -> tuple[Action, ...]:
    """The actions that move the cursor, the same in every pane, with keys of vi and less and arrow keys.

    `what` is the noun for a line of the pane.
    """
    moves = (
        ("down", "Down", f"Next {what}.", ("j", "down"), "move(1)"),
        ("up", "Up", f"Previous {what}.", ("k", "up"), "move(-1)"),
        ("page-down", "Page down", "One page down.", ("pagedown",), "page(1)"),
        ("page-up", "Page up", "One page up.", ("pageup", "ctrl+b"), "page(-1)"),
        ("half-down", "Half a page down", "Half a page down.", ("ctrl+d",), "page(0.5)"),
        ("half-up", "Half a page up", "Half a page up.", ("ctrl+u",), "page(-0.5)"),
        ("first", "First", f"First {what}.", ("g", "home"), "first"),
    )
    return tuple(
        Action(f"{context}.{name}", title, text, keys, context, handler) for name, title, text, keys, handler in moves
    )


def _neighbours(context: str) -> tuple[Action, Action]:
    return (
        Action(
            f"{context}.next-exchange",
            "Next",
            "The next exchange, without leaving the pane.",
            ("space", "ctrl+down", "f8"),
            context,
            "screen.neighbour(1)",
            bar=True,
        ),
        Action(
            f"{context}.previous-exchange",
            "Previous",
            "The previous exchange, without leaving the pane.",
            ("p", "ctrl+up", "f7"),
            context,
            "screen.neighbour(-1)",
            bar=True,
        ),
    )


def _last(context: str, text: str) -> Action:
    return Action(f"{context}.last", "Last", text, ("G", "end"), context, "last")


_SCREENS: dict[str, tuple[str, str, str]] = {
    "exchanges": ("1", "Exchanges", "Every exchange, newest last."),
    "stats": ("2", "Stats", "Counts, latencies and errors, by API, client, broker or topic."),
    "records": ("9", "Records", "Records of the exchanges in the list, from the one under its cursor on."),
    "health": ("0", "Health", "How well the capture could be read, and what could not be read."),
    **{name: (view.screen.key, view.screen.title, view.screen.about) for name, view in VIEWS.items()},
}
HELD = "held"
"""The screen of intercepted frames, which only a running proxy has; `app.intercept` leads to it."""
_KEYS = "1234567890" + ascii_uppercase
SCREENS = dict(sorted(_SCREENS.items(), key=lambda item: _KEYS.index(item[1][0])))
"""The screens by name, in the order of their keys: key, title and what they show."""


def _screens() -> tuple[Action, ...]:
    return tuple(
        Action(
            f"app.{name}",
            "Screens" if name == "exchanges" else title,
            f"{title}: {text}",
            (key,),
            "app",
            f"app.go('{name}')",
            bar=name == "exchanges",
            bar_key="0-9" if name == "exchanges" else "",
        )
        for name, (key, title, text) in SCREENS.items()
    )


ACTIONS: tuple[Action, ...] = (
    *_moves("list", "exchange"),
    _last("list", "Last exchange; while traffic passes, also follow new exchanges."),
    Action("list.page-space", "Page down", "One page down.", ("space",), "list", "page(1)"),
    Action("list.open", "Open", "Open the exchange: its fields and bytes.", ("enter",), "list", "open", bar=True),
    Action("list.tail", "Tail", "Follow new exchanges, or stop following.", ("F",), "list", "tail", bar=True),
    *_moves("tree", "field"),
    _last("tree", "Last field."),
    *_neighbours("tree"),
    Action("tree.enter", "Fold/bytes",
           "Open or close a struct; on a plain field go to its bytes; on “… more” show more.", ("enter",), "tree",
           "enter", bar=True),
    Action("tree.unfold", "Unfold", "Open this field, or step into it.", ("right", "l"), "tree", "unfold", bar=True),
    Action("tree.fold", "Fold", "Close this field, or step out of it.", ("left", "h"), "tree", "fold", bar=True),
    Action("tree.unfold-all", "Unfold below", "Open everything below this field.", ("asterisk",), "tree",
           "unfold_below"),
    Action("tree.fold-all", "Fold all", "Close everything.", ("underscore",), "tree", "fold_all"),
    *_moves("hex", "row of bytes"),
    _last("hex", "Last byte."),
    *_neighbours("hex"),
    Action("hex.right", "Next byte", "Next byte; the field it belongs to is selected.", ("right", "l"), "hex",
           "step(1)", bar=True),
    Action("hex.left", "Previous byte", "Previous byte.", ("left", "h"), "hex", "step(-1)", bar=True),
    Action("hex.field", "Field", "Go to the field these bytes belong to.", ("enter",), "hex", "field", bar=True),
    *_moves("overview", "line"),
    _last("overview", "Last line."),
    *_neighbours("overview"),
    *_moves("timing", "line"),
    _last("timing", "Last line."),
    *_neighbours("timing"),
    *_moves("records", "record"),
    _last("records", "Last record that was read."),
    Action("records.exchange", "Exchange", "Go to the exchange of the record.", ("e",), "records", "exchange", bar=True,
           enabled=lambda table: table.of_many),
    Action("records.earlier", "Earlier", "Begin at an earlier exchange of the list.", ("b",), "records",
           "screen.earlier", bar=True, enabled=lambda table: table.of_many),
    *_neighbours("records"),
    Action("records.open", "Record", "Go to the record: key, value, headers, batch; on “… more” read more.", ("enter",),
           "records", "enter", bar=True),
    Action("records.view-as", "View value as",
           "Read the values of this topic with the next viewer: the best fitting one, then each of the others.", ("v",),
           "records", "view_as('value')", bar=True),
    Action("records.view-key-as", "View key as", "Read the keys of this topic with the next viewer.", ("V",), "records",
           "view_as('key')", bar=True),
    *_moves("record", "line"),
    _last("record", "Last line."),
    *_neighbours("record"),
    Action("record.more", "More", "Show more of a long key or value.", ("enter",), "record", "enter", bar=True),
    Action("record.view-as", "View as",
           "Read the key or value under the cursor with the next viewer; remembered for its topic.", ("v",), "record",
           "view_as", bar=True),
    *FILTERING,
    *WALKING,
    *EXPORTING,
    *INTERCEPTING,
    *_moves("menu", "line"),
    _last("menu", "Last line."),
    Action("columns.toggle", "Show or hide", "Show the column, or hide it.", ("space",), "columns", "show_or_hide",
           bar=True),
    Action("columns.right", "Right", "Move the column to the right.", ("J", "shift+down"), "columns", "move(1)",
           bar=True),
    Action("columns.left", "Left", "Move the column to the left.", ("K", "shift+up"), "columns", "move(-1)", bar=True),
    Action("columns.wider", "Wider", "Make the column wider. In the list, drag the right end of its title.",
           ("greater_than_sign",), "columns", "resize(1)", bar=True),
    Action("columns.narrower", "Narrower", "Make the column narrower.", ("less_than_sign",), "columns", "resize(-1)",
           bar=True),
    Action("columns.reset", "Reset", "Restore the default columns, as wide as there is room.", ("r",),
           "columns", "reset", bar=True),
    Action("command.run", "Run", "Run the marked entry.", ("enter",), "command", "submit", bar=True),
    Action("command.complete", "Complete", "Copy the marked entry into the line.", ("tab",), "command", "take",
           bar=True),
    Action("command.down", "Down", "Mark the next entry.", ("down",), "command", "choose(1)", bar=True),
    Action("command.up", "Up", "Mark the previous entry.", ("up",), "command", "choose(-1)", bar=True),
    Action("command.leave", "Back", "Leave without running anything.", ("escape", "ctrl+c"), "command",
           "screen.close", bar=True),
    *_moves("outline", "line"),
    _last("outline", "Last line."),
    Action("outline.page-space", "Page down", "One page down.", ("space",), "outline", "page(1)"),
    Action("outline.enter", "Exchange",
           "Go to the exchange (#n) of the line; on a heading open or close its lines; in Health show the "
           "exchanges that the line counts.", ("enter",), "outline", "enter", bar=True),
    Action("outline.filter", "Filter by",
           "Show the exchanges of the topic, client, group, transaction or connection on the line. If a filter is "
           "applied, asks how to join the two.", ("equals_sign",), "outline", "filter_by", bar=True),
    Action("outline.dismiss", "Dismiss",
           "Dismiss the finding and its symptoms: they are no longer counted or marked, and come last. The same key "
           "undoes that. Stored beside the capture.", ("d",), "outline", "dismiss", bar=True,
           enabled=lambda pane: pane.dismisses),
    Action("outline.pane", "Pane", "Back to the table.", ("tab", "shift+tab"), "outline", "screen.other_pane", bar=True,
           enabled=lambda pane: pane.beside_table),
    Action("outline.find", "Find", "Find a text or a /regular expression/, in folded lines too.", ("slash", "ctrl+f"),
           "outline", "find", bar=True),
    Action("outline.unfold", "Unfold", "Show the lines below this one.", ("right", "l"), "outline", "unfold", bar=True),
    Action("outline.fold", "Fold", "Hide the lines below this one.", ("left", "h"), "outline", "fold", bar=True),
    Action("outline.unfold-all", "Unfold all", "Show everything.", ("asterisk",), "outline", "unfold_all"),
    Action("outline.fold-all", "Fold all", "Show only headings.", ("underscore",), "outline", "fold_all"),
    Action("outline.next-found", "Next", "The next line with the text.", ("n",), "outline", "found(1)"),
    Action("outline.previous-found", "Previous", "The previous line with the text.", ("N",), "outline", "found(-1)"),
    *_moves("table", "row"),
    _last("table", "Last row."),
    Action("table.page-space", "Page down", "One page down.", ("space",), "table", "page(1)"),
    Action("table.open", "Details", "Show the details of the row below the table; there, enter leads to exchanges.",
           ("enter",), "table", "open", bar=True),
    Action("table.filter", "Filter by",
           "Show the exchanges of the topic, client, group, transaction or connection of the row. If a filter is "
           "applied, asks how to join the two.", ("equals_sign",), "table", "filter_by", bar=True),
    Action("table.narrow", "Rows with", "Show only rows that contain a text; an empty text shows all rows again.",
           ("slash", "ctrl+f"), "table", "narrow", bar=True),
    Action("table.order-next", "Sort by", "Sort by the next column; a click on a title sorts by that column.",
           ("o", "right", "l"), "table", "order(1)", bar=True),
    Action("table.order-previous", "Sort back", "Sort by the previous column.", ("O", "left", "h"), "table",
           "order(-1)"),
    Action("table.reverse", "Reverse", "Reverse the order.", ("v",), "table", "reverse", bar=True),
    Action("table.next", "Table", "The next table of the screen, such as the partitions of topics.",
           ("right_curly_bracket",), "table", "table(1)", bar=True, enabled=lambda pane: len(pane.titles) > 1),
    Action("table.previous", "Previous table", "The previous table.", ("left_curly_bracket",), "table",
           "table(-1)", enabled=lambda pane: len(pane.titles) > 1),
    Action("table.pane", "Pane", "Go to the details of the row.", ("tab", "shift+tab"), "table", "screen.other_pane",
           enabled=lambda pane: pane.screen.detailing),
    *_moves("compare", "field"),
    _last("compare", "Last field."),
    *_moves("stats", "line"),
    _last("stats", "Last line."),
    Action("stats.filter", "Exchanges",
           "Show the exchanges of the line whose requests lie within the window, long polls included. If a filter "
           "is applied, asks how to join the two.", ("enter", "equals_sign"), "stats", "filter_by", bar=True),
    Action("stats.by", "Count by",
           "Count by API, client, broker or topic. Percentiles are exact to 1 %. (long poll) marks Fetches that the "
           "broker held until their max wait was over.", ("b",), "stats", "group", bar=True),
    Action("stats.window-longer", "Longer", "A longer window: 10 s, 1 min, 10 min up to the newest exchange, or all.",
           ("right", "l"), "stats", "window(1)", bar=True),
    Action("stats.window-shorter", "Shorter", "A shorter window.", ("left", "h"), "stats", "window(-1)", bar=True),
    Action("stats.order", "Order", "Order by count, bytes, records, errors, p50, p90, p99 or max.", ("o",), "stats",
           "order", bar=True),
    Action("stats.measure", "Measure",
           "Draw the latencies, or requests, bytes, records or errors a second, of the line under the cursor.", ("m",),
           "stats", "screen.measure", bar=True, enabled=lambda pane: pane.screen.charting),
    Action("stats.mark-later", "Mark time", "Mark the next time in the chart, and read its figures above.",
           ("full_stop",), "stats", "screen.mark(1)", bar=True, bar_key=", .",
           enabled=lambda pane: pane.screen.charting),
    Action("stats.mark-earlier", "Earlier", "Mark the previous time.", ("comma",), "stats", "screen.mark(-1)",
           enabled=lambda pane: pane.screen.charting),
    Action("stats.since", "From/to there",
           "On all screens but Health show only what came from the marked time on. Or drag over the chart with the "
           "mouse.", ("left_square_bracket",), "stats", "screen.limit_from", bar=True, bar_key="[ ]",
           enabled=lambda pane: pane.screen.charting),
    Action("stats.until", "Up to there", "On all screens but Health show only what came up to the marked time.",
           ("right_square_bracket",), "stats", "screen.limit_to",
           enabled=lambda pane: pane.screen.charting),
    Action("find.go", "Take", "Find or save what was typed, or go to it.", ("enter",), "find", "submit", bar=True),
    Action("find.leave", "Leave", "Leave the line; n and N still repeat the search.", ("escape",), "find", "leave",
           bar=True),
    *_moves("help", "line"),
    _last("help", "Last line."),
    Action("help.find", "Find", "Find a text in the help.", ("slash", "ctrl+f"), "help", "screen.find"),
    Action("help.next-found", "Next", "The next match.", ("n",), "help", "screen.found(1)"),
    Action("help.previous-found", "Previous", "The previous match.", ("N",), "help", "screen.found(-1)"),
    Action("exchanges.tab-next", "Tab", "Next tab of the detail: Overview, Request, Response, Records, Timing.",
           ("right_curly_bracket",), "exchanges", "tab(1)", bar=True, enabled=lambda screen: screen.panes.detail_shown),
    Action("exchanges.tab-previous", "Previous tab", "Previous tab of the detail.", ("left_curly_bracket",),
           "exchanges", "tab(-1)", enabled=lambda screen: screen.panes.detail_shown),
    Action("app.help", "Help", "What every key does, the focused pane's first.", ("question_mark", "f1"), "app", "help",
           bar=True),
    Action("exchanges.pause", "Pause",
           "Stop or resume taking new exchanges onto the screen; traffic and recording go on.", ("ctrl+e",),
           "exchanges", "pause", bar=True),
    Action("exchanges.stop-reading", "Stop reading",
           "Stop indexing the capture; what was read stays.", ("S",), "exchanges",
           "stop_reading", bar=True, enabled=lambda screen: screen.is_indexing),
    Action("exchanges.maximise", "Max", "Give the whole screen to one pane, or share it again.", ("backslash",),
           "exchanges", "maximise", bar=True),
    Action("exchanges.layout", "Layout",
           "Place the list above the detail, beside it, or as the terminal's size suggests.", ("minus",), "exchanges",
           "layout", enabled=lambda screen: screen.panes.is_shared),
    Action("exchanges.grow", "Grow", "More room for the list, or for the detail if it has the focus.",
           ("greater_than_sign",), "exchanges", "resize(1)", enabled=lambda screen: screen.panes.is_shared),
    Action("exchanges.shrink", "Shrink", "Less room for the list, or for the detail if it has the focus.",
           ("less_than_sign",), "exchanges", "resize(-1)", enabled=lambda screen: screen.panes.is_shared),
    Action("exchanges.columns", "Columns",
           "Choose the columns of the list, their order and widths; all are remembered.", ("C",), "exchanges",
           "columns"),
    Action("exchanges.pane-next", "Pane", "Next pane.", ("tab",), "exchanges", "pane(1)", bar=True),
    Action("exchanges.pane-previous", "Previous pane", "Previous pane.", ("shift+tab",), "exchanges", "pane(-1)"),
    Action("copying.menu", "Copy",
           "Copy a value, a record, the line, the exchange as JSON, or bytes as hex, dump, base64 or C array; on a "
           "table, the row or its details as JSON; on every screen, the command that prints what it shows.", ("c",),
           "copying", "copy_menu", bar=True, name="copy"),
    Action("copying.yank", "Yank",
           "Copy at once what is under the cursor: the value, the bytes, the record's value or the line.", ("y",),
           "copying", "yank"),
    *_screens(),
    Action("app.command", "Command", "Find any action by its name and run it, or type a command with its arguments.",
           ("colon", "ctrl+p"), "app", "command", bar=True),
    Action("app.open", "Open",
           "Open other captures; what is shown stays open, and q at their list returns to it.", ("L",),
           "app", "open_captures", argument="[FILE...]", enabled=lambda screen: screen.app.opens),
    Action("app.intercept", "Intercept",
           "Show the frames that the proxy holds for you; there, and if nothing is intercepted yet, ask for the filter "
           "of requests to hold.", ("i",), "app", "intercept", argument="[EXPR]",
           enabled=lambda screen: screen.app.intercepts),
    Action("app.bar", "Help bar", "Show or hide the two lines of keys at the bottom.", ("H",), "app", "toggle_bar"),
    Action("app.all-times", "All times", "Show all times again, on all screens.", ("w",), "app", "all_times", bar=True,
           enabled=lambda screen: bool(screen.app.period)),
    Action("app.theme", "Theme", "Paint in other colours: terminal, dark, light, high-contrast or mono.", (), "app",
           "theme", argument="NAME"),
    Action("app.redraw", "Redraw", "Redraw the screen.", ("ctrl+l",), "app", "redraw"),
    Action("app.suspend", "Suspend", "Suspend to the shell; its fg returns here.", ("ctrl+z",), "app", "suspend"),
    Action("app.back", "Back",
           "Back to where you came from; at the list it leaves, and asks first while traffic passes.", ("q",), "app",
           "back", bar=True),
    Action("app.step-back", "Step back", "Back to where you came from; never leaves.", ("escape",), "app", "step_back"),
    Action("app.quit", "Quit now", "Leave at once, without asking.", ("Q",), "app", "quit_now"),
    Action("app.interrupt", "Quit", "Pressed twice in a row, leaves at once.", ("ctrl+c",), "app", "interrupt"),
)  # fmt: skip

ALONE = ("filter", "find", "command", "follow", "compare", "export", "export-file", "help", "menu", "forms", "columns")
"""Contexts of input lines and dialogs: they get all keys first, and have no commands."""
ABOVE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*ALONE, "app"), ()),
    "forms": ("menu",),
    "columns": ("menu",),
    "outline": ("app", "copying"),
    "held": ("app",),
    "stats": ("app", "copying"),
    "table": ("app", "copying"),
}
"""Maps a context to the other contexts whose keys work in it too; a context that is absent has SCREEN_CONTEXTS."""
SCREEN_CONTEXTS = ("app", "filtering", "walking", "finding", "exchanges", "copying", "exporting")
"""Contexts whose keys work in all panes of the exchanges screen."""


def above(context: str) -> tuple[str, ...]:
    """The other contexts whose keys work in `context` too."""
    return tuple(name for name in ABOVE.get(context, SCREEN_CONTEXTS) if name != context)


@cache
def of(context: str) -> tuple[Action, ...]:
    return tuple(action for action in ACTIONS if action.context == context)


def bindings(context: str) -> list[BindingType]:
    """Textual bindings of a context; their ids are those of the actions, so that a keymap can change the keys."""
    return [
        Binding(",".join(action.keys), action.handler, action.title, show=False, id=action.id, priority=action.priority)
        for action in of(context)
        if action.keys
    ]


def is_enabled(context: str, name: str, widget: Any) -> bool:
    """Whether the action of a context with handler `name` may run now."""
    for action in of(context):
        if action.enabled is not None and action.handler.partition("(")[0] == name:
            return action.enabled(widget)
    return True


def on_bar(actions: Iterable[Action], widget: Any) -> list[Action]:
    return [action for action in actions if action.bar and (action.enabled is None or action.enabled(widget))]
