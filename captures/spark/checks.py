"""Which exchanges a split may claim (captures.spark.claims), and the check by which stage 2 knows them again."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any, Final

from decoders.exchange import Exchange, Frame, Status
from decoders.knowledge import TEACHING

UNCLAIMED: Final = TEACHING | {17, 18, 36}
"""API keys of what tells something of others or of its connection: topics, groups, brokers, software, principals."""


def check(item: Exchange, started: int, done: int) -> int:
    """All that the rows of a plain exchange are made of, as 32 bits; 0 where it is not plain.

    Nothing is odd about one that is plain, so that two readings that see the same frames see the same in it. It began
    and ended with bytes of its own, so that nothing else of its flow did at the same.
    """
    request, response = item.request, item.response
    if (
        request is None
        or (item.status is not Status.OK and item.status is not Status.NO_REPLY_EXPECTED)
        or item.api_key in UNCLAIMED
        or item.protocol is not None
        or item.problems
        or item.token
        or item.session is not None
    ):
        return 0
    asked = _told(request)
    last, answered = (request, asked) if response is None else (response, _told(response))
    if asked is None or answered is None:
        return 0
    first, size = request.spans[0]
    if not first <= started < first + size or done != last.at:
        return 0
    connection = item.connection
    told = (
        started,
        _words(item.client_id, item.status, item.reason, connection.client, connection.broker),
        -1 if item.api_key is None else item.api_key,
        -1 if item.api_version is None else item.api_version,
        -1 if item.correlation_id is None else item.correlation_id,
        asked,
        answered,
    )
    return hash(told) & 0xFFFFFFFF


@lru_cache(maxsize=1024)
def _words(*words: str | None) -> int:
    # other than of numbers, Python's hash of a text is another in each process
    return zlib.crc32("\0".join(map(str, words)).encode("utf-8", "replace"))


def _told(frame: Frame) -> tuple[Any, ...] | None:
    """Numbers of a frame; None where it is not all there, in order, or commented."""
    spans = frame.spans
    if frame.missing or frame.comments or not spans or (len(spans) > 1 and sorted(spans) != spans):
        return None
    at, length = spans[-1]
    if frame.at != at + length - 1:
        return None
    return frame.size, frame.first_time, frame.time, *spans
