"""The base of full screens: the lines around the panes, help, running actions by name, ways to leave."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from kproxy.captures.period import Period
from kproxy.tui.actions import registry as actions
from kproxy.tui.actions.action import Action
from kproxy.tui.captions import Captions
from kproxy.tui.screens.composed import Composed
from kproxy.tui.terminal import look
from kproxy.tui.terminal.cells import Cells
from kproxy.tui.terminal.themes import THEMES
from kproxy.tui.widgets.chrome import Bar
from kproxy.tui.widgets.lines import Lines
from kproxy.tui.widgets.painted import Ground

if TYPE_CHECKING:
    from kproxy.tui.application import Application
    from kproxy.tui.screens.command import Chosen

SMALL_COLUMNS, SMALL_ROWS = 60, 15
"""Below this size one line says that the terminal is too small."""


class KproxyScreen(Composed[None]):
    """A screen with the containers and bars #root, #title, #status, #keys and #small."""

    CONTEXTS: ClassVar[tuple[str, ...]] = ("app",)
    """Contexts whose actions work in all panes of the screen."""
    BINDINGS: ClassVar = actions.bindings("app")
    DEFAULT_CSS = """
    KproxyScreen { layout: vertical; background: ansi_default; }
    KproxyScreen #small { display: none; height: 1; }
    KproxyScreen .-nobar #keys { display: none; }
    KproxyScreen .-tiny #title, KproxyScreen .-tiny #status, KproxyScreen .-tiny #keys { display: none; }
    KproxyScreen .-tiny #small { display: block; }
    """

    app: Application

    def __init__(self, cells: Cells, captions: Captions) -> None:
        super().__init__()
        self._cells = cells
        self._captions = captions
        self._interrupted = 0.0

    def _compositor_refresh(self) -> None:
        # nothing is displayed while the application mounts its first screen, so painting waits until that is done
        if not self.app._batch_count:  # noqa: SLF001 (Textual would paint for nobody)
            super()._compositor_refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        # #root covers the screen; Textual would look up the regions of all panes to find the screen's borders
        return [Strip.blank(crop.width)] * crop.height

    @property
    def _root(self) -> Ground:
        return self.query_one("#root", Ground)

    @property
    def context(self) -> str:
        """The context of the focused pane."""
        return getattr(self.focused, "CONTEXT", "list")

    def _mark_tiny(self) -> None:
        """Switch to or from the line that says that the terminal is too small."""
        width, height = self.app.size
        self._root.set_class(width < SMALL_COLUMNS or height < SMALL_ROWS, "-tiny")
        self.query_one("#small", Bar).show(
            ([(f"terminal too small ({width}x{height}, needs {SMALL_COLUMNS}x{SMALL_ROWS})", look.PLAIN)], [])
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        return all(actions.is_enabled(context, action, self) for context in self.CONTEXTS)

    def action_help(self) -> None:
        from kproxy.tui.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(self._cells, (self.context, *self.CONTEXTS)))

    def show_chrome(self) -> None:
        """Paint the lines around the panes."""
        raise NotImplementedError

    def take_actions(self, *parts: object) -> None:
        """Make the methods action_NAME of the screen's parts actions of the screen."""
        for part in parts:
            for name in dir(part):
                if name.startswith("action_"):
                    setattr(self, name, getattr(part, name))

    # running actions by name

    def action_command(self, text: str = "") -> None:
        """Open the command line, which runs an action on the focused pane or its screen; `text` is typed already."""
        from kproxy.tui.screens.command import CommandScreen

        screen = CommandScreen(self._cells, self._able(), self.arguments, self.app.commands, text)
        self.app.push_screen(screen, partial(self._run, self.focused))

    def _able(self) -> list[Action]:
        """Actions that can run now: the focused pane's, then the screen's, then the application's."""
        # nothing has the focus while the terminal is too small for the panes
        pane = () if self.focused is None else (self.context,)
        contexts = (*pane, *reversed(self.CONTEXTS))
        able = [action for context in contexts for action in actions.of(context)]
        return [
            action
            for action in able
            if action.id != "app.command"
            and (action.enabled is None or action.enabled(self._target(action, self.focused)))
        ]

    def on_lines_menu_asked(self, event: Lines.MenuAsked) -> None:
        """The right mouse button opens the actions of the help bar as a menu."""
        event.stop()
        from kproxy.tui.screens.menu import Choice, ChoiceMenu

        keymap = self.app.keymap
        able = [action for action in self._able() if action.bar]
        choices = [Choice(keymap.text(action).split()[0], action.help) for action in able]
        run = partial(self._taken, able, self.focused)
        self.app.push_screen(ChoiceMenu(self._cells, "Menu", choices), run)

    async def _taken(self, able: Sequence[Action], pane: Widget | None, index: int | None) -> None:
        if index is not None:
            await self.app.run_action(able[index].handler, self._target(able[index], pane))

    def _target(self, action: Action, pane: Widget | None) -> Widget:
        """The widget that handles an action."""
        return pane if pane is not None and getattr(pane, "CONTEXT", "") == action.context else self

    async def _run(self, pane: Widget | None, chosen: Chosen | None) -> None:
        if chosen is None:
            return
        action, argument = chosen
        target = self._target(action, pane)
        if action.argument:
            getattr(target, f"action_{action.handler}")(argument)
        else:
            await self.app.run_action(action.handler, target)

    def arguments(self, action: Action, typed: str) -> Sequence[tuple[str, str]]:
        """Completions of a command's argument, each with an explanation."""
        if action.id == "app.theme":
            return [(name, theme.said) for name, theme in THEMES.items() if name.startswith(typed)]
        if action.id == "app.open":
            from kproxy.tui.output.paths import completions, quoted, split

            whole, path = split(typed)
            before = [quoted(one) for one in whole]
            return [(" ".join([*before, quoted(name)]), said) for name, said in completions(path)]
        return ()

    def action_theme(self, name: str) -> None:
        if name in THEMES:
            self.app.paint_as(name)
        else:
            self.notify(f"no theme {name}: {', '.join(THEMES)}", severity="warning", timeout=4)

    def action_open_captures(self, line: str = "") -> None:
        """Open the captures that `line` names; if it is empty, ask for their names."""
        try:
            names = shlex.split(line)
        except ValueError as error:
            self.notify(str(error), severity="warning", timeout=4)
            return
        if names:
            self.app.open_captures([Path(name).expanduser() for name in names])
        else:
            self.action_command("open ")

    def action_intercept(self, expression: str = "") -> None:
        """Go to the intercepted frames; with an expression, intercept what matches."""
        if self.app.intercepts:
            self.app.intercept(expression)

    def action_toggle_bar(self) -> None:
        self._root.toggle_class("-nobar")

    def action_redraw(self) -> None:
        self.app.refresh(layout=True)

    def action_suspend(self) -> None:
        if os.getsid(0) == os.getpid() or not self.app.suspends:
            self.notify("cannot suspend: no shell has started kproxy", timeout=4)
        else:
            self.app.action_suspend_process()

    def action_back(self) -> None:
        raise NotImplementedError

    def action_step_back(self) -> None:
        """Like `action_back`, but never leave kproxy."""
        self.action_back()

    def action_all_times(self) -> None:
        self.app.limit(Period())

    def action_quit_now(self) -> None:
        self.app.exit()

    def action_interrupt(self) -> None:
        now = time.monotonic()
        if now - self._interrupted < 2.0:
            self.app.exit()
        self._interrupted = now
        self.notify("ctrl+c again leaves", timeout=2)
