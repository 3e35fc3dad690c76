from __future__ import annotations

import pytest

from tui import actions
from tui.action import Action
from tui.app import KproxyApp
from tui.screens.base import KproxyScreen
from tui.screens.exchanges import ExchangesScreen
from tui.screens.filtering import FilteringScreen
from tui.screens.help import HelpLines
from tui.screens.menu import FilterMenu, MenuLines
from tui.widgets.exchange_list import ExchangeList
from tui.widgets.field_tree import FieldTree
from tui.widgets.filter_line import FilterInput
from tui.widgets.find_bar import FindInput
from tui.widgets.hex_view import HexView
from tui.widgets.outline import Outline
from tui.widgets.overview import Overview
from tui.widgets.record import RecordPane
from tui.widgets.records import RecordTable

HANDLERS = {
    "list": ExchangeList,
    "tree": FieldTree,
    "hex": HexView,
    "overview": Overview,
    "records": RecordTable,
    "record": RecordPane,
    "filter": FilterInput,
    "outline": Outline,
    "find": FindInput,
    "help": HelpLines,
    "menu": MenuLines,
    "forms": FilterMenu,
    "filtering": FilteringScreen,
    "exchanges": ExchangesScreen,
    "app": KproxyScreen,
}


ABOVE: dict[str, tuple[str, ...]] = {
    # a line that is typed into, and a screen of its own, take their keys first
    **dict.fromkeys(("filter", "find", "help", "menu"), ()),
    "forms": ("menu",),
    "outline": ("app",),
}
"""Contexts whose keys hold in another one too, where these are not those of the exchanges screen."""


def test_every_context_has_actions_and_a_title() -> None:
    assert {action.context for action in actions.ACTIONS} == set(actions.CONTEXTS) == set(HANDLERS)


def test_ids_are_unique() -> None:
    ids = [action.id for action in actions.ACTIONS]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("action", actions.ACTIONS, ids=lambda action: action.id)
def test_an_action_has_title_help_keys_and_a_handler(action: Action) -> None:
    assert action.title
    assert action.help.endswith(".")
    assert action.keys
    name = action.handler.partition("(")[0]
    widget = HANDLERS[action.context]
    if name.startswith("screen."):
        screens = {"menu": FilterMenu}
        widget, name = screens.get(action.context, ExchangesScreen), name.removeprefix("screen.")
    if name.startswith("app."):
        widget, name = KproxyApp, name.removeprefix("app.")
    assert callable(getattr(widget, f"action_{name}"))


@pytest.mark.parametrize("context", [name for name in actions.CONTEXTS if name != "app"])
def test_a_key_means_one_thing_in_a_pane(context: str) -> None:
    own = [key for action in actions.of(context) for key in action.keys]
    assert len(own) == len(set(own))
    above = ABOVE.get(context, ("app", "filtering", "exchanges"))
    everywhere = {key for name in above if name != context for action in actions.of(name) for key in action.keys}
    assert not everywhere & set(own)


def test_keys_that_terminals_cannot_send_are_not_needed() -> None:
    keys = {key for action in actions.ACTIONS for key in action.keys}
    assert not keys & {"ctrl+m", "ctrl+i", "ctrl+full_stop", "ctrl+slash", "ctrl+z", "ctrl+s", "ctrl+q"}


def test_every_action_has_a_key_without_control() -> None:
    only_control = {
        action.id for action in actions.ACTIONS if all(key.startswith(("ctrl+", "shift+")) for key in action.keys)
    }
    # pause, redraw and their like become commands of the command line, which is for later
    assert only_control <= {
        "exchanges.pause", "app.redraw", "filtering.clear", "app.interrupt", "exchanges.pane-previous",
        "filter.clear",
        *(action.id for action in actions.ACTIONS if action.id.endswith(("half-up", "half-down"))),
    }  # fmt: skip
