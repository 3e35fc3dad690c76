"""Actions of exports, and of the export dialog and its panes."""

from __future__ import annotations

from kproxy.tui.actions.action import Action

EXPORTING: tuple[Action, ...] = (
    Action("exporting.export", "Export",
           "Export the shown exchanges, the marked ones or this one to a file; the list stays usable meanwhile. While "
           "an export runs, offers to stop it.",
           ("x",), "exporting", "export", bar=True, argument="[FORMAT] [FILE]",
           enabled=lambda screen: screen.exporting.able),
    Action("exporting.stop", "Stop export", "Stop the running export, and remove what it has written.", (),
           "exporting", "stop_export", name="export stop",
           enabled=lambda screen: screen.exporting.export is not None),
    Action("export.next", "Next choice", "The next choice of the line.", ("right", "l", "space"), "export",
           "choose(1)", bar=True),
    Action("export.previous", "Previous choice", "The previous choice.", ("left", "h"), "export", "choose(-1)"),
    Action("export.down", "Down", "Go to the next line; the file name is the last line.", ("j", "down", "tab"),
           "export", "down", bar=True),
    Action("export.up", "Up", "The previous line.", ("k", "up"), "export", "move(-1)"),
    Action("export.begin", "Export", "Export; if the file exists, asks first.", ("enter",), "export",
           "screen.begin", bar=True),
    Action("export.leave", "Back", "Leave without exporting.", ("escape", "q", "ctrl+c"), "export", "screen.close",
           bar=True),
    Action("export-file.begin", "Export", "Export; if the file exists, asks first.", ("enter",),
           "export-file", "submit", bar=True),
    Action("export-file.complete", "Complete", "Complete the name of the file.", ("tab",), "export-file", "complete",
           bar=True),
    Action("export-file.up", "Up", "Back to the choices.", ("up", "shift+tab"), "export-file", "screen.choices",
           bar=True),
    Action("export-file.leave", "Back", "Leave without exporting.", ("escape", "ctrl+c"), "export-file", "screen.close",
           bar=True),
)  # fmt: skip
