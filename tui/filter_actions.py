"""Actions around the filter: its line, menus of what can be filtered by, and the screen that has them."""

from __future__ import annotations

from tui.action import Action

FILTERING: tuple[Action, ...] = (
    Action("filter.apply", "Apply", "Show what the filter selects.", ("enter",), "filter", "submit", bar=True),
    Action("filter.leave", "Leave", "Leave the bar; what was applied stays.", ("escape",), "filter", "leave", bar=True),
    Action(
        "filter.complete",
        "Complete",
        "Put in the marked suggestion; without suggestions show them.",
        ("tab",),
        "filter",
        "accept",
        bar=True,
    ),
    Action(
        "filter.older",
        "Older",
        "The filter that was applied before this one.",
        ("up",),
        "filter",
        "history(-1)",
        bar=True,
    ),
    Action(
        "filter.newer",
        "Choose",
        "The filter that was applied after this one; at the newest go down the suggestions, enter takes one.",
        ("down",),
        "filter",
        "history(1)",
        bar=True,
    ),
    Action("filter.clear", "Clear", "Empty the line.", ("ctrl+u",), "filter", "clear", bar=True),
    Action("forms.selected", "Selected", "Show this alone.", ("equals_sign",), "forms", "form('selected')", bar=True),
    Action("forms.not", "Not", "Show all but this.", ("exclamation_mark",), "forms", "form('not')", bar=True),
    Action("forms.and", "And", "Of what is shown only this.", ("ampersand",), "forms", "form('and')", bar=True),
    Action("forms.or", "Or", "This beside what is shown.", ("vertical_line",), "forms", "form('or')", bar=True),
    Action(
        "forms.and-not", "And not", "Of what is shown all but this.", ("tilde",), "forms", "form('and-not')", bar=True
    ),
    Action(
        "forms.or-not",
        "Or not",
        "All but this beside what is shown.",
        ("circumflex_accent",),
        "forms",
        "form('or-not')",
        bar=True,
    ),
    Action(
        "forms.prepare",
        "Prepare",
        "Put the filter into the line to be edited instead of applying it, or apply it again.",
        ("tab",),
        "forms",
        "prepare",
        bar=True,
    ),
    Action("menu.take", "Take", "Take this one.", ("enter",), "menu", "take", bar=True),
    Action("menu.close", "Back", "Take none.", ("escape", "q", "ctrl+c"), "menu", "screen.close"),
    Action(
        "filtering.edit", "Filter", "Edit the display filter.", ("f", "slash"), "filtering", "edit_filter", bar=True
    ),
    Action(
        "filtering.clear",
        "Clear filter",
        "Show every exchange again.",
        ("ctrl+x",),
        "filtering",
        "clear_filter",
        enabled=lambda screen: screen.filtered,
    ),
    Action(
        "filtering.menu",
        "Filter by",
        "Filter by what is under the cursor: a field, a record, or anything of the exchange.",
        ("equals_sign",),
        "filtering",
        "filter_menu",
        bar=True,
    ),
)
