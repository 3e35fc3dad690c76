"""Definitions, golden frames and random values that the tests of this package share."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from kproxy.decoders.message import Decoded, decode_request, decode_response
from kproxy.decoders.schema import Definitions, Message, definitions
from tests.support.golden import Golden, golden

RELEASES = ("4.4.0", "3.9.2")


def eyes(release: str) -> Definitions:
    return definitions(release)


def decode(one: Golden, release: str) -> Decoded:
    if one.kind == "request":
        return decode_request(one.frame, eyes(release))
    return decode_response(one.frame, one.api_key, one.api_version, eyes(release))


@cache
def decoded(release: str) -> tuple[tuple[Golden, Decoded], ...]:
    return tuple((one, decode(one, release)) for one in golden(release))


@cache
def smallest(release: str) -> tuple[tuple[Golden, Decoded], ...]:
    """The shortest golden frame of each message and version."""
    best: dict[tuple[str, int], tuple[Golden, Decoded]] = {}
    for one, read in decoded(release):
        key = (one.name, one.api_version)
        if key not in best or len(one.frame) < len(best[key][0].frame):
            best[key] = (one, read)
    return tuple(best.values())


@cache
def every_message() -> tuple[tuple[Message, int], ...]:
    """Every definition with each of its versions."""
    return tuple(
        (message, version)
        for message in definitions().messages()
        for version in range(message.versions.low, message.versions.high + 1)
    )


def same(left: Any, right: Any) -> bool:
    """Equality in which NaN equals itself."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)
