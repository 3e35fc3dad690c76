"""Actions of filters: the filter bar, menus of filters, and the screen with both."""

from __future__ import annotations

from kproxy.tui.actions.action import Action

FILTERING: tuple[Action, ...] = (
    Action("filter.apply", "Apply", "Show what the filter selects.", ("enter",), "filter", "submit", bar=True),
    Action("filter.leave", "Leave", "Leave the bar; the applied filter stays.", ("escape",), "filter", "leave",
           bar=True),
    Action("filter.complete", "Complete", "Insert the marked suggestion, or show the suggestions.", ("tab",),
           "filter", "accept", bar=True),
    Action("filter.older", "Older", "The filter that was applied before this one.", ("up",), "filter", "history(-1)",
           bar=True),
    Action("filter.newer", "Choose",
           ("The filter that was applied after this one; after the newest one, the suggestions (enter takes the "
           "marked one)."),
           ("down",), "filter", "history(1)", bar=True),
    Action("filter.clear", "Clear", "Empty the line.", ("ctrl+u",), "filter", "clear", bar=True),
    Action("forms.selected", "Selected", "Show only this.", ("equals_sign",), "forms", "form('selected')", bar=True),
    Action("forms.not", "Not", "Show all but this.", ("exclamation_mark",), "forms", "form('not')", bar=True),
    Action("forms.and", "And", "Of what is shown, show only this.", ("ampersand",), "forms", "form('and')", bar=True),
    Action("forms.or", "Or", "Show this as well.", ("vertical_line",), "forms", "form('or')", bar=True),
    Action("forms.and-not", "And not", "Of what is shown, hide this.", ("tilde",), "forms", "form('and-not')",
           bar=True),
    Action("forms.or-not", "Or not", "Show all but this as well.", ("circumflex_accent",), "forms",
           "form('or-not')", bar=True),
    Action("forms.prepare", "Prepare",
           "Switch between applying the filter and editing it in the line first.", ("tab",), "forms",
           "prepare", bar=True),
    Action("menu.take", "Take", "Choose this one.", ("enter",), "menu", "take", bar=True),
    Action("menu.close", "Back", "Choose none.", ("escape", "q", "ctrl+c"), "menu", "screen.close"),
    Action("filtering.edit", "Filter", "Edit the display filter.", ("f", "slash"), "filtering", "edit_filter",
           bar=True),
    Action("filtering.clear", "Clear filter", "Show every exchange again.", ("ctrl+x",), "filtering", "clear_filter",
           name="filter clear", enabled=lambda screen: screen.filtering.filtered),
    Action("filtering.apply", "Filter by", "Show what a filter selects.", (), "filtering", "apply_filter",
           name="filter", argument="EXPR"),
    Action("filtering.save", "Save filter",
           "Save the applied filter under a name; $NAME then stands for it.", (), "filtering",
           "save_filter", name="filter save", argument="NAME"),
    Action("filtering.delete", "Delete filter", "Delete a saved filter.", (), "filtering", "delete_filter",
           name="filter delete", argument="NAME"),
    Action("filtering.saved", "Saved filters", "List saved and configured filters, and apply one.",
           ("dollar_sign",), "filtering", "saved_filters", name="filter list"),
    Action("filtering.menu", "Filter by",
           "Filter by what is under the cursor: a field, a record, or anything of the exchange.", ("equals_sign",),
           "filtering", "filter_menu", name="filter by", bar=True),
)  # fmt: skip
