"""Makes facts of consumers' Fetch requests, with the partitions that incremental requests omit (KIP-227).

A request in a fetch session names only partitions that are new or whose position changed, and its response only
partitions with news. So this module remembers the positions of each session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import remember
from kproxy.captures.findings.decoded_exchange import DecodedExchange, Reading, known
from kproxy.captures.findings.facts import Fact
from kproxy.decoders.schema import api_keys

Values: TypeAlias = Mapping[str, Any]
FULL: Final = 0
"""The session epoch of a request that asks for a new session."""
LAST: Final = -1
"""The session epoch of a request that ends its session, or uses none."""
REFUSED: Final = frozenset({70, 71, 106})
"""Error codes FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH and FETCH_SESSION_TOPIC_ID_ERROR."""
CONNECTIONS: Final = 20_000
"""Maximum number of connections whose latest response is remembered."""
PLACES: Final = 200_000
"""Maximum number of partitions in all sessions together."""
SESSIONS: Final = 10_000


class Position(NamedTuple):
    """A consumer's fetch offset in a partition, and its limit in bytes for the partition; None if unknown."""

    offset: int | None
    most: int | None


Positions: TypeAlias = dict[tuple[str, int], Position]
NOWHERE: Final = Position(None, None)


class Sessions:
    """The positions of each fetch session, by broker and session id; beyond PLACES, drops the oldest sessions."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], Positions] = {}
        self._places = 0

    def begin(self, broker: str, session: int, positions: Positions) -> None:
        self.end(broker, session)
        self._kept[broker, session] = positions
        self._places += len(positions)
        self._bound()

    def end(self, broker: str, session: int) -> None:
        self._places -= len(self._kept.pop((broker, session), ()))

    def change(self, broker: str, session: int, asked: Positions, forgotten: list[tuple[str, int]]) -> Positions:
        """Apply an incremental request to its session; returns all positions of the session."""
        kept = self._kept.get((broker, session))
        if kept is None:
            kept = self._kept[broker, session] = {}  # the session began before the capture
        before = len(kept)
        for place in forgotten:
            kept.pop(place, None)
        kept.update(asked)
        self._places += len(kept) - before
        self._bound()
        return kept

    def _bound(self) -> None:
        while len(self._kept) > SESSIONS or (self._places > PLACES and self._kept):
            self.end(*next(iter(self._kept)))


class Fetches:
    """Makes facts of consumers' Fetch exchanges; `read` must get them in the order of the capture."""

    def __init__(self) -> None:
        self._sessions = Sessions()
        self._answered: dict[int, int] = {}
        """Maps each connection to the time (ns) of its latest Fetch response."""

    def read(self, decoded: DecodedExchange) -> Iterator[Fact]:
        if not decoded.answered or _is_replica(decoded.request):
            return
        at = decoded.at
        positions = self._positions(decoded)
        before = self._answered.get(at.connection)
        remember(self._answered, at.connection, at.time, CONNECTIONS)
        epoch = decoded.request.get("sessionEpoch", LAST)
        if epoch == FULL or decoded.error in REFUSED:
            fact = self._asked(decoded)
            if fact is not None:
                yield fact
        parts = tuple(_parts(decoded, positions))
        if parts:
            yield facts.Fetched(
                at, sum(one.size for one in parts), decoded.request.get("minBytes", 0), decoded.request.get("maxBytes"),
                None if before is None else max(0, at.asked - before), parts,
            )  # fmt: skip

    def _positions(self, decoded: DecodedExchange) -> Positions:
        """The positions of all partitions of a request, including those that the request omits as unchanged."""
        asked, broker, sessions = decoded.request, decoded.at.broker, self._sessions
        session, epoch = asked.get("sessionId", 0), asked.get("sessionEpoch", LAST)
        positions = {
            (decoded.topic(topic), one.get("partition", 0)): Position(known(one.get("fetchOffset")), _limit(one))
            for topic in asked.get("topics") or ()
            for one in topic.get("partitions") or ()
        }
        granted = decoded.response.get("sessionId", 0)
        if decoded.error:
            sessions.end(broker, session)
        elif epoch > FULL:
            forgotten = [
                (decoded.topic(topic), number)
                for topic in asked.get("forgottenTopicsData") or ()
                for number in topic.get("partitions") or ()
            ]
            return sessions.change(broker, session, positions, forgotten)
        elif session:
            sessions.end(broker, session)
        if epoch == FULL and granted and not decoded.error:
            sessions.begin(broker, granted, positions)
        return positions

    def _asked(self, decoded: DecodedExchange) -> facts.FetchSession | None:
        partitions = sum(len(topic.get("partitions") or ()) for topic in decoded.request.get("topics") or ())
        if decoded.response.get("throttleTimeMs") or (not decoded.error and not partitions):
            return None
        return facts.FetchSession(decoded.at, decoded.response.get("sessionId", 0), decoded.error, partitions)


def _parts(decoded: DecodedExchange, positions: Positions) -> Iterator[facts.FetchedPartition]:
    for topic in decoded.response.get("responses") or ():
        for one in topic.get("partitions") or ():
            size = len(one.get("records") or b"")
            high, stable = known(one.get("highWatermark")), known(one.get("lastStableOffset"))
            held = high is not None and stable is not None and stable < high
            if one.get("errorCode") or not (size or held):
                continue
            name, number = decoded.topic(topic), one.get("partitionIndex", 0)
            offset, most = positions.get((name, number), NOWHERE)
            yield facts.FetchedPartition(name, number, offset, size, high, stable, most)


def _is_replica(asked: Values) -> bool:
    state = asked.get("replicaState") or {}
    return bool(asked.get("replicaId", -1) >= 0 or state.get("replicaId", -1) >= 0)


def _limit(one: Values) -> int | None:
    most = one.get("partitionMaxBytes")
    return most if isinstance(most, int) and most > 0 else None


def readers() -> dict[int, Reading]:
    """The function that makes facts of Fetch, with new state: call this once for each reading."""
    return {api_keys.FETCH: Reading(frozenset({facts.Fetched, facts.FetchSession}), Fetches().read)}
