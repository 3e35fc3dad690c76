"""Escapes text from the wire and names of files for terminals, logs, pages, spreadsheets and JSON on a terminal.

All output of kproxy passes through here, so that no control character, line end or change of direction in data acts on
a terminal.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from kproxy.decoders.plurals import counted

LONGEST: Final = 1000
"""Maximum number of characters of one message that are shown."""

_UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1: terminals execute these
    "\u00ad\u061c\u180e"  # soft hyphen, Arabic letter mark, Mongolian vowel separator
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line ends, bidi
    "\ufe00-\ufe0f\ufeff\ufff9-\ufffb"  # variation selectors, byte order mark, interlinear
    "\ud800-\udfff"
    "\U000e0000-\U000e0fff"  # tags and variation selectors
    "]"
)
_BEYOND_ASCII = re.compile("[^ -~]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_UNSAFE_IN_JSON = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]"  # DEL, C1, bidi, line ends
)
_FORMULA = tuple("=+-@\t\r")


def escape(text: str, *, ascii_only: bool = False) -> str:
    """The text with an escape for each character that moves the cursor, changes the direction, or has no width.

    `ascii_only` also escapes all characters beyond ASCII.
    """
    text = _UNSAFE.sub(_spell, text)
    return _BEYOND_ASCII.sub(_spell, text) if ascii_only else text


def message(text: str) -> str:
    """The text as one line for a terminal or log: at most LONGEST characters, then the number of those left out."""
    left_out = len(text) - LONGEST
    return escape(text) if left_out <= 0 else f"{escape(text[:LONGEST])}… ({counted(left_out, 'character', ',')} more)"


def in_json(data: bytes) -> bytes:
    """The same JSON with DEL, C1, line separators and bidirectional control characters escaped."""
    if data.isascii():
        return data.replace(b"\x7f", b"\\u007f") if b"\x7f" in data else data
    return _UNSAFE_IN_JSON.sub(_as_json, data)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON that acts on no terminal; lone surrogates become "?"."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return in_json(text.encode("utf-8", "replace")).decode()


def in_sheet(text: str) -> str:
    """The text as a spreadsheet cell; an apostrophe before a formula makes spreadsheets treat it as text."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _as_json(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(match[0].decode())


def _spell(match: re.Match[str]) -> str:
    character = match[0]
    short = _SHORT.get(character)
    if short is not None:
        return short
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
