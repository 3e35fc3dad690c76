"""Actions of the screen of intercepted frames."""

from __future__ import annotations

from kproxy.tui.actions.action import Action

INTERCEPTING: tuple[Action, ...] = (
    Action("held.forward", "Forward", "Forward the frame unchanged.", ("a",), "held", "forward", bar=True),
    Action("held.forward-all", "Forward all", "Forward all held frames unchanged.", ("A",), "held", "forward_all",
           bar=True),
    Action("held.edit", "Edit", "Edit the frame's body as JSON in $EDITOR; it is checked, and then sent.", ("e",),
           "held", "edit", bar=True),
    Action("held.error", "Error", "Answer with an error, whose name is asked for; a held request is never sent.",
           ("E",), "held", "error", bar=True),
    Action("held.drop", "Drop", "Never send the frame.", ("x",), "held", "drop", bar=True),
    Action("held.disconnect", "Disconnect", "End the frame's connection.", ("X",), "held", "disconnect", bar=True),
    Action("held.duplicate", "Twice", "Send a response twice.", ("D",), "held", "duplicate"),
)  # fmt: skip
