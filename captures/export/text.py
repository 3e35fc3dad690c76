"""Text from the wire made harmless: no terminal obeys it, no line ends early, no direction changes."""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1: a terminal obeys them
    "\u00ad\u061c\u180e"  # soft hyphen, Arabic letter mark, Mongolian vowel separator
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line ends, bidi
    "\ufe00-\ufe0f\ufeff\ufff9-\ufffb"  # variation selectors, byte order mark, interlinear
    "\ud800-\udfff"
    "\U000e0000-\U000e0fff"  # tags and variation selectors
    "]"
)
_BEYOND_ASCII = re.compile("[^ -~]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}


def escape(text: str, *, ascii_only: bool = False) -> str:
    """The text with everything spelt that would move a cursor, change direction or take no cell.

    `ascii_only` also spells everything beyond ASCII.
    """
    text = _UNSAFE.sub(_spell, text)
    return _BEYOND_ASCII.sub(_spell, text) if ascii_only else text


def _spell(match: re.Match[str]) -> str:
    character = match[0]
    short = _SHORT.get(character)
    if short is not None:
        return short
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
