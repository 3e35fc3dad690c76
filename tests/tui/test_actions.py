from __future__ import annotations

import pytest

from kproxy.tui.actions import registry as actions
from kproxy.tui.actions.action import Action
from kproxy.tui.actions.keymap import key_text
from kproxy.tui.app import KproxyApp
from kproxy.tui.screens.base import KproxyScreen
from kproxy.tui.screens.columns import Columns
from kproxy.tui.screens.columns_menu import ColumnsMenu
from kproxy.tui.screens.command import CommandInput, CommandScreen
from kproxy.tui.screens.compare import CompareLines, CompareScreen
from kproxy.tui.screens.comparing import Comparing
from kproxy.tui.screens.copying import Copying
from kproxy.tui.screens.exchanges import ExchangesScreen
from kproxy.tui.screens.export import ExportLines, ExportScreen, FileInput
from kproxy.tui.screens.exporting import Exporting
from kproxy.tui.screens.filtering import Filtering
from kproxy.tui.screens.finding import Finding
from kproxy.tui.screens.follow import FollowScreen
from kproxy.tui.screens.following import Following
from kproxy.tui.screens.held import HeldScreen
from kproxy.tui.screens.help import HelpLines, HelpScreen, help_lines
from kproxy.tui.screens.jumping import Jumping
from kproxy.tui.screens.layout import Layout
from kproxy.tui.screens.marking import Marking
from kproxy.tui.screens.menu import FilterMenu, MenuLines
from kproxy.tui.screens.proving import Proving
from kproxy.tui.screens.records import RecordsScreen
from kproxy.tui.screens.stats import StatsScreen
from kproxy.tui.screens.tables import TablesScreen
from kproxy.tui.widgets.exchange_list import ExchangeList
from kproxy.tui.widgets.field_tree import FieldTree
from kproxy.tui.widgets.filter_line import FilterInput
from kproxy.tui.widgets.find_bar import FindInput
from kproxy.tui.widgets.hex_view import HexView
from kproxy.tui.widgets.outline import Outline
from kproxy.tui.widgets.overview import Overview
from kproxy.tui.widgets.record import RecordPane
from kproxy.tui.widgets.records import RecordTable
from kproxy.tui.widgets.stats import StatsTable
from kproxy.tui.widgets.table import TableList
from kproxy.tui.widgets.timing import TimingPane
from tools.docs import DOCS

HANDLERS = {
    "list": ExchangeList,
    "tree": FieldTree,
    "hex": HexView,
    "overview": Overview,
    "timing": TimingPane,
    "records": RecordTable,
    "record": RecordPane,
    "filter": FilterInput,
    "outline": Outline,
    "stats": StatsTable,
    "table": TableList,
    "find": FindInput,
    "help": HelpLines,
    "command": CommandInput,
    "menu": MenuLines,
    "forms": FilterMenu,
    "columns": ColumnsMenu,
    "filtering": Filtering,
    "walking": (Marking, Proving, Jumping, Following, Comparing, ExchangesScreen),
    "finding": Finding,
    "follow": FollowScreen,
    "compare": CompareLines,
    "held": HeldScreen,
    "exchanges": (ExchangesScreen, Layout, Columns),
    "copying": Copying,
    "export": ExportLines,
    "export-file": FileInput,
    "exporting": Exporting,
    "app": KproxyScreen,
}


def test_every_context_has_actions_and_a_title() -> None:
    assert {action.context for action in actions.ACTIONS} == set(actions.CONTEXTS) == set(HANDLERS)


def test_ids_are_unique() -> None:
    ids = [action.id for action in actions.ACTIONS]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("action", actions.ACTIONS, ids=lambda action: action.id)
def test_an_action_has_title_help_keys_and_a_handler(action: Action) -> None:
    assert action.title
    assert action.help.endswith(".")
    assert action.keys or action.argument or action.name
    assert not (action.keys and action.must_have_argument)
    name = action.handler.partition("(")[0]
    widget = HANDLERS[action.context]
    if name.startswith("screen."):
        name = name.removeprefix("screen.")
        screens = (
            CommandScreen, CompareScreen, ExchangesScreen, ExportScreen, FilterMenu, HelpScreen, RecordsScreen,
            StatsScreen, TablesScreen,
        )  # fmt: skip
        widget = next(screen for screen in screens if hasattr(screen, f"action_{name}"))
    if name.startswith("app."):
        widget, name = KproxyApp, name.removeprefix("app.")
    handlers = widget if isinstance(widget, tuple) else (widget,)
    assert [callable(getattr(handler, f"action_{name}", None)) for handler in handlers].count(True) == 1


@pytest.mark.parametrize("context", [name for name in actions.CONTEXTS if name != "app"])
def test_a_key_means_one_thing_in_a_pane(context: str) -> None:
    own = [key for action in actions.of(context) for key in action.keys]
    assert len(own) == len(set(own))
    everywhere = {key for name in actions.above(context) for action in actions.of(name) for key in action.keys}
    assert not everywhere & set(own)


def test_keys_that_terminals_cannot_send_are_not_needed() -> None:
    keys = {key for action in actions.ACTIONS for key in action.keys}
    assert not keys & {"ctrl+m", "ctrl+i", "ctrl+full_stop", "ctrl+slash", "ctrl+s", "ctrl+q"}


def test_every_action_can_be_had_without_control() -> None:
    """By another key, or by the command line."""
    only_control = {
        action.id
        for action in actions.ACTIONS
        if action.keys and all(key.startswith(("ctrl+", "shift+")) for key in action.keys)
    }
    assert {name for name in only_control if name.partition(".")[0] in actions.ALONE} <= {
        "filter.clear",
        *(action.id for action in actions.ACTIONS if action.id.endswith(("half-up", "half-down"))),
    }


def test_commands_are_unique() -> None:
    names = [action.command for action in actions.ACTIONS if action.context not in actions.ALONE]
    assert len(names) == len(set(names))


def test_every_action_is_in_the_help() -> None:
    for context in actions.CONTEXTS:
        lines = {(keys, text) for keys, text, _ in help_lines((context,))}
        for action in actions.ACTIONS:
            keys = " ".join(key_text(key) for key in action.keys)
            assert (keys or f":{action.command} {action.argument}".rstrip(), action.help) in lines


def test_every_action_is_on_the_page() -> None:
    page = (DOCS / "keys.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in page.split("\n## ")[1:]}
    for action in actions.ACTIONS:
        section = sections[actions.CONTEXTS[action.context]]
        assert action.help.replace("|", "\\|") in section
        for key in action.keys:
            assert f"`{key_text(key)}`".replace("|", "\\|") in section
