"""Which exchanges a split may claim (captures.spark.claims), and the check by which stage 2 knows them again."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any, Final

from decoders.exchange import Exchange, Frame, Status
from decoders.knowledge import TEACHING

UNCLAIMED: Final = TEACHING | {17, 18, 36}
"""API keys of what tells something of others or of its connection: topics, groups, brokers, software, principals."""


_OK, _NO_REPLY_EXPECTED = Status.OK, Status.NO_REPLY_EXPECTED


def check(item: Exchange, started: int, done: int) -> int:
    """All that the rows of a plain exchange are made of, as 32 bits; 0 where it is not plain.

    Nothing is odd about one that is plain, so that two readings that see the same frames see the same in it. It began
    and ended with bytes of its own, so that nothing else of its flow did at the same.
    """
    request, response, status = item.request, item.response, item.status
    if (
        request is None
        or (status is not _OK and status is not _NO_REPLY_EXPECTED)
        or item.api_key in UNCLAIMED
        or item.protocol is not None
        or item.problems
        or item.token
        or item.session is not None
        or not _whole(request)
    ):
        return 0
    spans = request.spans
    first, size = spans[0]
    answered: tuple[Any, ...] = ()
    end = request.at
    if response is not None:
        if not _whole(response):
            return 0
        end = response.at
        answered = response.size, response.first_time, response.time, *response.spans
    if end != done or not first <= started < first + size:
        return 0
    key, version, number, connection = item.api_key, item.api_version, item.correlation_id, item.connection
    told = (
        started,
        status is _OK,
        _words(item.client_id, item.reason, connection.client, connection.broker),
        -1 if key is None else key,
        -1 if version is None else version,
        -1 if number is None else number,
        request.size,
        request.first_time,
        request.time,
        *spans,
        *answered,
    )
    return hash(told) & 0xFFFFFFFF


@lru_cache(maxsize=1024)
def _words(*words: str | None) -> int:
    # other than of numbers, Python's hash of a text is another in each process
    return zlib.crc32("\0".join(map(str, words)).encode("utf-8", "replace"))


def _whole(frame: Frame) -> bool:
    """Whether it is all there, in order, and not commented."""
    spans = frame.spans
    if frame.missing or frame.comments or not spans:
        return False
    at, length = spans[-1]
    return frame.at == at + length - 1 and (len(spans) == 1 or sorted(spans) == spans)
