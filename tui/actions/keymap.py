"""Keys of actions: the registry's, or those that the user has configured."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from textual.keys import _character_to_key

from kproxy.tui.actions import registry as actions
from kproxy.tui.actions.action import Action

KEY_TEXT = {
    "apostrophe": "'",
    "colon": ":",
    "comma": ",",
    "full_stop": ".",
    "semicolon": ";",
    "dollar_sign": "$",
    "exclamation_mark": "!",
    "ampersand": "&",
    "vertical_line": "|",
    "tilde": "~",
    "circumflex_accent": "^",
    "question_mark": "?",
    "slash": "/",
    "backslash": "\\",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "asterisk": "*",
    "equals_sign": "=",
    "underscore": "_",
    "escape": "esc",
    "pagedown": "pgdn",
    "pageup": "pgup",
    "f1": "F1",
    "f7": "F7",
    "f8": "F8",
}
"""How a key is written for users, if not by Textual's name."""


_KEYS = {text: key for key, text in KEY_TEXT.items()}


def key_text(key: str) -> str:
    """A key as it is written for users."""
    return KEY_TEXT.get(key, key)


def _key(text: str) -> str:
    """Textual's name of a key that a user wrote."""
    return _KEYS.get(text) or (_character_to_key(text) if len(text) == 1 else text)


class Keymap:
    """The user's keys by id of the action, several keys separated by spaces: {"list.open": "enter o"}.

    `problems` lists invalid entries, which are ignored.
    """

    def __init__(self, entries: Mapping[str, str] | None = None) -> None:
        self.problems: list[str] = []
        self._keys: dict[str, tuple[str, ...]] = {}
        known = {action.id: action for action in actions.ACTIONS}
        wanted = {}
        for name, text in (entries or {}).items():
            if name not in known:
                near = get_close_matches(name, known, n=1)
                self.problems.append(f"no action {name!r}" + (f"; did you mean {near[0]}?" if near else ""))
            elif not text.split():
                self.problems.append(f"{name}: no key")
            else:
                wanted[name] = tuple(_key(word) for word in text.split())
        self._keys = wanted
        for name in wanted:
            for other in self._rivals(known[name]):
                self.problems.append(f"{name}: {other.id} already has that key")
                self._keys = {one: keys for one, keys in self._keys.items() if one != name}
                break

    def keys(self, action: Action) -> tuple[str, ...]:
        """The keys of an action, by Textual's names."""
        return self._keys.get(action.id, action.keys)

    def text(self, action: Action) -> str:
        """The keys of an action as written for users; for an action without a key its command."""
        keys = " ".join(key_text(key) for key in self.keys(action))
        return keys or f":{action.command} {action.argument}".rstrip()

    def bindings(self) -> dict[str, str]:
        """The keys that differ from the registry's, by id of the action, as Textual's `set_keymap` takes them."""
        return {name: ",".join(keys) for name, keys in self._keys.items()}

    def _rivals(self, action: Action) -> list[Action]:
        """Other actions that share a key with `action` in a context where the keys of both work."""
        keys = set(self.keys(action))
        return [
            other
            for other in actions.ACTIONS
            if other is not action and keys & set(self.keys(other)) and _together(action.context, other.context)
        ]


def _together(one: str, other: str) -> bool:
    return one == other or one in actions.above(other) or other in actions.above(one)


DEFAULT = Keymap()


def keymap_of(app: Any) -> Keymap:
    """The keymap of an application."""
    found = getattr(app, "keymap", None)
    return found if isinstance(found, Keymap) else DEFAULT
