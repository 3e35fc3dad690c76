"""Words for exchanges, and text from the wire made harmless: no terminal obeys it, no line ends early, no direction
changes.
"""

from __future__ import annotations

import re

from decoders.exchange import Status
from decoders.schema import Definitions

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


def size_text(size: int) -> str:
    """Bytes in at most five characters: 92, 4.1k, 19k, 3.1M."""
    if size < 1000:
        return str(size)
    value = float(size)
    for unit in "kMGT":
        value /= 1000
        if value < 999.5:
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    return f"{value:.0f}P"


def latency_text(nanoseconds: int) -> str:
    """Milliseconds with one decimal; seconds with a unit from 1000 ms on: 0.3, 62.4, 2.4s, 312s."""
    milliseconds = nanoseconds / 1e6
    if abs(milliseconds) < 999.95:
        return f"{milliseconds:.1f}"
    seconds = milliseconds / 1000
    return f"{seconds:.1f}s" if abs(seconds) < 99.95 else f"{seconds:.0f}s"


def _spell(match: re.Match[str]) -> str:
    character = match[0]
    short = _SHORT.get(character)
    if short is not None:
        return short
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


RESULTS: dict[Status, str] = {
    Status.WAITING: "waiting",
    Status.OK: "ok",
    Status.NO_REPLY_EXPECTED: "no reply due",
    Status.NO_RESPONSE: "no response",
    Status.ORPHAN_RESPONSE: "no request",
    Status.UNDECODABLE: "undecoded",
    Status.CUT: "cut",
    Status.TLS: "TLS",
}
"""What became of an exchange, in a word or two."""


def api_text(
    definitions: Definitions,
    key: int | None,
    version: int | None,
    *,
    token: bool = False,
    protocol: str | None = None,
) -> str:
    """What was asked: "Produce v11", "Key 32001 v0", "SaslToken", "(unmatched)" where no request was seen."""
    if token:
        return "SaslToken"
    if key is None:
        return "(unmatched)"
    name = definitions.api_name(key, protocol) or f"Key {key}"
    return name if version is None else f"{name} v{version}"
