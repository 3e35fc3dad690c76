"""Encodes frames with changed values, and decodes each one again before it may leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kproxy.core.differences import by, differences
from kproxy.core.rewrite import Change
from kproxy.core.verdict import Turn
from kproxy.decoders.message import Decoded, decode_request, decode_response
from kproxy.decoders.problems import Code
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.writer import write
from kproxy.faults.trouble import CannotError

_SIZE: Final = 4
CHANGES: Final = 50
"""Maximum number of changed fields that a packet comment lists for one author."""


def decoded(frame: bytes, side: Side, turn: Turn, definitions: Definitions) -> Decoded:
    """The decoded frame, a request or a response of this turn."""
    if side is Side.CLIENT:
        return decode_request(frame, definitions)
    return decode_response(frame, turn.api_key, turn.api_version, definitions)


def readable(read: Decoded) -> bool:
    """Whether a frame was decoded, so that other values can be written into it.

    Bytes after the body, which some clients and brokers send, are allowed and kept as they are.
    """
    return read.body is not None and all(problem.code is Code.TRAILING_BYTES for problem in read.problems)


def rewritten(
    frame: bytes, old: Decoded, values: Mapping[str, Any], side: Side, turn: Turn, author: str, definitions: Definitions
) -> tuple[bytes, list[Change]]:
    """The frame with `values` as its body, and the changed fields with `author` before each path.

    Raises WriteError if a value does not fit, CannotError if the new frame does not decode.
    """
    if old.message is None or old.body is None:
        raise CannotError("the frame cannot be decoded")
    content = frame[_SIZE : old.body_start] + write(old.message, old.version, values)
    if old.problems:
        content += frame[old.body_start + len(write(old.message, old.version, old.body)) :]
    new = len(content).to_bytes(_SIZE, "big") + content
    back = decoded(new, side, turn, definitions)
    if not readable(back) or back.body is None or len(back.problems) > len(old.problems):
        raise CannotError("the changed frame could not be decoded again")
    if new == frame:
        return frame, []
    changes = differences(old.body, back.body, old.message, old.version)
    if len(changes) > CHANGES:
        changes[CHANGES:] = [Change(f"({len(changes) - CHANGES} more fields)", "", "")]
    return new, by(author, changes or [Change("(a withheld value)", "", "")])
