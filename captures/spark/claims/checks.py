"""Which exchanges a split may claim (captures.spark.claims.claiming), and the check by which stage 2 recognises them.

Plain Python; where there is a C compiler, setup.py also compiles it as the extension `_checks`, with the C types of
checks.pxd.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kproxy.decoders.exchange import Connection, Exchange, Frame, Status
from kproxy.decoders.knowledge import TEACHING
from kproxy.decoders.schema import api_keys

if TYPE_CHECKING:
    from kproxy.captures.reader import Done

UNCLAIMED: Final = TEACHING | {api_keys.SASL_HANDSHAKE, api_keys.API_VERSIONS, api_keys.SASL_AUTHENTICATE}
"""API keys of exchanges that are never claimed, because they hold facts for other exchanges or for their connection:
topics, groups, brokers, software, principals.
"""
NUMBERS: Final = (
    "started", "done", "place", "asked", "answered", "check", "asked_pieces", "answered_pieces", "api_key",
    "api_version", "correlation_id", "request_size", "req_ts_ns", "req_last_ts_ns", "response_size", "rsp_ts_ns",
    "rsp_last_ts_ns",
)  # fmt: skip
"""Names of the numbers of a claim, in order.

They are those of captures.spark.claims.claiming.Claims, its `check`, the number of spans of its frames
(captures.spark.claims.plain.Frames), and those of captures.tables.headers.
"""

numbers_of = Struct(f"{len(NUMBERS)}q").pack  # not in C
put = array.append  # not in C
_OK, _NO_REPLY_EXPECTED = Status.OK, Status.NO_REPLY_EXPECTED


class Found:
    """The claims of a flow, in the order of completion.

    `numbers` are 64-bit numbers (NUMBERS), claim after claim; `texts` are client id, status and reason; `spans` are
    addresses and lengths of the pieces of the claims' frames. `talks` are (index of the first claim, connection), one
    for each change of connection.
    """

    def __init__(self) -> None:
        self.numbers = bytearray()
        self.texts: list[str | None] = []
        self.spans = array("q")
        self.talks: list[tuple[int, Connection]] = []
        self._count = 0
        self._connection: Connection | None = None
        self._begun: dict[Exchange, int] = {}

    def take(
        self, began: list[tuple[int, Exchange]], done: Done, keeps: Callable[[Exchange], bool] | None = None
    ) -> None:
        """Claim the exchanges in `done` that are plain and, if `keeps` is given, for which `keeps` returns True.

        `began` has the exchanges whose requests began in this call; the requests of all others began in an earlier
        call.
        """
        begun = self._begun
        for at, exchange in began:
            begun[exchange] = at
        for at, item in done:
            if isinstance(item, Exchange):
                started = begun.pop(item, None)
                traits = None if started is None else _traits(item, started, at)
                if traits is not None and (keeps is None or keeps(item)):
                    self._add(item, at, traits)

    def _add(self, item: Exchange, done: int, traits: tuple[Any, ...]) -> None:
        """Claim an exchange with the properties `traits`, which `_traits` returned."""
        connection = item.connection
        if connection is not self._connection:
            self._connection = connection
            self.talks.append((self._count, connection))
        self._count += 1
        started, key, version, number, asked_size, asked_first, asked_last, size, first, last, asked, answered, _, _ = (
            traits
        )
        self.numbers += numbers_of(
            started, done, _offset(item), asked[0][0], answered[0][0] if answered else -1, _check(traits),
            len(asked), len(answered), key, version, number, asked_size, asked_first, asked_last, size, first, last,
        )  # fmt: skip
        self.texts += (item.client_id, item.status, item.reason)
        for spans in (asked, answered):
            for at, length in spans:
                put(self.spans, at)
                put(self.spans, length)


def check(item: Exchange, started: int, done: int) -> int:
    """A 32-bit hash of everything from which the rows of a plain exchange are made; 0 if the exchange is not plain.

    A plain exchange has no anomaly, so two readings that see the same frames see the same exchange. It began and ended
    with bytes of its own, so nothing else in its flow happened at the same position.
    """
    traits = _traits(item, started, done)
    return 0 if traits is None else _check(traits)


def _check(traits: tuple[Any, ...]) -> int:
    return hash(traits) & 0xFFFFFFFF or 1


def _traits(item: Exchange, started: int, done: int) -> tuple[Any, ...] | None:
    """The properties of a plain exchange, whose Python hash is equal in all processes; None if it is not plain."""
    request, response, status = item.request, item.response, item.status
    key, version, number = item.api_key, item.api_version, item.correlation_id
    if (
        request is None
        or (status is not _OK and status is not _NO_REPLY_EXPECTED)
        or key is None
        or version is None
        or number is None
        or key in UNCLAIMED
        or item.protocol is not None
        or item.problems
        or item.token
        or item.session is not None
    ):
        return None
    asked = _whole(request)
    if asked is None:
        return None
    answered: tuple[tuple[int, int], ...] | None = ()
    size = first = last = 0
    end = request.at
    if response is not None:
        answered = _whole(response)
        if answered is None:
            return None
        size, first, last, end = response.size, response.first_time, response.time, response.at
    begin, length = asked[0]
    if end != done or not begin <= started < begin + length:
        return None
    connection = item.connection
    return (
        started, key, version, number, request.size, request.first_time, request.time, size, first, last,
        asked, answered, status is _OK,
        _words(item.client_id, item.reason, connection.client, connection.broker),
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _words(*words: str | None) -> int:
    # Python's hash of a text differs between processes, unlike its hash of numbers
    return zlib.crc32("\0".join(map(str, words)).encode("utf-8", "replace"))


def _whole(frame: Frame) -> tuple[tuple[int, int], ...] | None:
    """The spans of a frame, if it is complete, in order and without comments; otherwise None."""
    spans = frame.spans
    count = len(spans)
    if not count or frame.missing or frame.comments:
        return None
    at, length = spans[count - 1]
    if frame.at != at + length - 1 or (count > 1 and sorted(spans) != spans):
        return None
    return tuple(spans)


def _offset(item: Exchange) -> int:
    """The stream offset of the request of a plain exchange."""
    request = item.request
    return request.stream_offset  # type: ignore[union-attr]  # as said
