"""Collects transactions over time, by transactional id, producer id and epoch (KIP-98, KIP-890)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from kproxy.captures.analysis.seen import Client, Seen, Values
from kproxy.decoders.batches.batch import parse
from kproxy.decoders.exchange_json import milliseconds, timestamp
from kproxy.decoders.plurals import counted
from kproxy.decoders.schema import errors

FENCED: Final = frozenset({47, 90})
"""Error codes INVALID_PRODUCER_EPOCH and PRODUCER_FENCED: another producer uses the transactional id."""
MOST: Final = 100_000
"""Maximum number of transactions, of which later ones are only counted; also of aborted ones in Fetch responses."""
READERS: Final = 1000
"""Maximum number of Fetch exchanges that are kept for an aborted transaction."""
DEFAULT_TIMEOUT_MS: Final = 60_000
"""Assumed `transaction.timeout.ms` if InitProducerId was not captured."""


Step = tuple[int, int, str]
"""(time in ns since the epoch, exchange number, event)."""


class State(StrEnum):
    """The outcome of a transaction; HANGING: it was open for longer than its timeout."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    FENCED = "fenced"
    HANGING = "hanging"


@dataclass(slots=True, eq=False)
class Aborted:
    """An aborted transaction that Fetch responses list for isolation level read_committed (KIP-98)."""

    topic: str
    partition: int
    producer_id: int
    first_offset: int
    exchanges: list[int] = field(default_factory=list)
    """Numbers of the Fetch exchanges that list it."""

    def line(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "producer_id": self.producer_id,
            "first_offset": self.first_offset,
            "exchanges": self.exchanges,
        }


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction. Times are nanoseconds since the epoch; `ended` is None while the transaction is open.

    `first` and `last` are numbers of exchanges. `client` is its producer; None if the capture has only brokers that act
    for the producer.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    client: Client | None
    began: int
    first: int
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    ended: int | None = None
    last: int = 0
    state: State = State.OPEN
    partitions: set[tuple[str, int]] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    batches: int = 0
    records: int = 0
    bytes: int = 0
    steps: list[Step] = field(default_factory=list)
    """All steps except Produce, in the order of the responses."""
    produced: Step | None = None
    """The first Produce of the transaction."""
    failure: str | None = None
    by_producer: bool = False
    """Whether `client` is certain, because the producer's own requests were captured."""

    def line(self) -> dict[str, Any]:
        steps = sorted(self.steps if self.produced is None else [*self.steps, self.produced])
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "client_id": None if self.client is None else self.client.client_id,
            "host": None if self.client is None else self.client.host,
            "state": self.state.value,
            "began": timestamp(self.began, 9),
            "ended": None if self.ended is None else timestamp(self.ended, 9),
            "duration_ms": None if self.ended is None else milliseconds(self.ended - self.began, 9),
            "timeout_ms": self.timeout_ms,
            "partitions": [f"{topic}-{partition}" for topic, partition in sorted(self.partitions)],
            "groups": sorted(self.groups),
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes,
            "failure": self.failure,
            "steps": [
                {"time": timestamp(time, 9), "exchange": exchange, "step": what} for time, exchange, what in steps
            ],
            "first_exchange": self.first,
            "last_exchange": self.last,
        }


class Transactions:
    """Collects transactions from exchanges."""

    def __init__(self) -> None:
        self.more = 0
        """Number of transactions beyond the maximum."""
        self._all: list[Transaction] = []
        self._open: dict[str, Transaction] = {}
        self._timeouts: dict[str, int] = {}
        self._producers: dict[str, Client] = {}
        """By transactional id, the client that received a producer id last."""
        self._aborted: dict[tuple[str, int, int, int], Aborted] = {}
        self._now = 0

    def add(self, seen: Seen) -> None:
        self._now = max(self._now, seen.answered_at)
        match seen.key:
            case 0:
                self._produce(seen)
            case 1:
                self._fetch(seen)
            case 22:
                self._init(seen)
            case 24:
                self._add_partitions(seen)
            case 25:
                self._step(seen, seen.request, f"offsets of group {seen.request.get('groupId')} added")
            case 26:
                self._end(seen)
            case 28:
                self._step(seen, seen.request, f"offsets of group {seen.request.get('groupId')} committed")

    def result(self) -> list[Transaction]:
        """The transactions, in the order of their starts."""
        for one in self._open.values():
            if one.state is State.OPEN and self._now - one.began > one.timeout_ms * 1_000_000:
                one.state = State.HANGING
        return self._all

    def aborted(self) -> list[Aborted]:
        """The aborted transactions that Fetch responses list, in the order of their first listing."""
        return list(self._aborted.values())

    def lines(self) -> Iterator[dict[str, Any]]:
        for one in self.result():
            yield {"schema": "kproxy.transaction/1", **one.line()}
        for met in self.aborted():
            yield {"schema": "kproxy.aborted_transaction/1", **met.line()}

    # --- one function for each message ---

    def _init(self, seen: Seen) -> None:
        name = seen.request.get("transactionalId")
        if not name or seen.error:
            return
        if name in self._timeouts or len(self._timeouts) < MOST:
            self._timeouts[name] = seen.request["transactionTimeoutMs"]
            self._producers[name] = seen.client
        ended = self._open.pop(name, None)
        if ended is not None:
            ended.state, ended.ended, ended.last = State.ABORTED, seen.answered_at, seen.number
            ended.failure = "InitProducerId of the same transactional id ended it"
            ended.steps.append((seen.time, seen.number, "InitProducerId"))

    def _add_partitions(self, seen: Seen) -> None:
        body = seen.request
        # From v4 on, the leader of a partition sends it on behalf of a producer (KIP-890).
        by_producer = bool(body.get("v3AndBelowTransactionalId"))
        if by_producer:
            added = [(
                {
                    "transactionalId": body["v3AndBelowTransactionalId"],
                    "producerId": body["v3AndBelowProducerId"],
                    "producerEpoch": body["v3AndBelowProducerEpoch"],
                },
                body.get("v3AndBelowTopics"),
            )]  # fmt: skip
        else:
            added = [(one, one.get("topics")) for one in body.get("transactions") or () if not one.get("verifyOnly")]
        for who, topics in added:
            places = {(one["name"], number) for one in topics or () for number in one["partitions"]}
            what = f"{counted(len(places), 'partition')} added"
            transaction = self._step(seen, who, what, by_producer=by_producer)
            if transaction is not None:
                transaction.partitions |= places

    def _produce(self, seen: Seen) -> None:
        name = seen.request.get("transactionalId")
        if not name:
            return
        for element in seen.request.get("topicData") or ():
            topic = seen.topic(element)
            for partition in element["partitionData"]:
                if partition.get("records") is None:
                    continue
                for batch in parse(partition["records"], check=False).batches:
                    header = batch.header
                    if not header.get("isTransactional"):
                        continue
                    one = self._step(seen, {"transactionalId": name, **header})
                    if one is not None:
                        step = (seen.time, seen.number, "first Produce" + _failed(seen))
                        one.produced = step if one.produced is None else min(one.produced, step)
                        one.partitions.add((topic, partition["index"]))
                        one.batches += 1
                        one.records += max(0, header["recordCount"])
                        one.bytes += header["sizeInBytes"]

    def _fetch(self, seen: Seen) -> None:
        for element in seen.response.get("responses") or ():
            for partition in element.get("partitions") or ():
                for one in partition.get("abortedTransactions") or ():
                    place = (seen.topic(element), partition["partitionIndex"], one["producerId"], one["firstOffset"])
                    met = self._aborted.get(place)
                    if met is None:
                        if len(self._aborted) >= MOST:
                            continue
                        met = self._aborted[place] = Aborted(*place)
                    if len(met.exchanges) < READERS:
                        met.exchanges.append(seen.number)

    def _end(self, seen: Seen) -> None:
        committed = seen.request.get("committed")
        one = self._step(seen, seen.request, "commit" if committed else "abort")
        if one is None or seen.errors:
            return
        if seen.response:
            one.state = State.COMMITTED if committed else State.ABORTED
            one.ended = seen.answered_at
            self._open.pop(one.transactional_id, None)

    def _step(self, seen: Seen, who: Values, what: str = "", *, by_producer: bool = True) -> Transaction | None:
        """The open transaction of an exchange's transactional id, begun if there is none, with the exchange added.

        `who` has the transactional id and the producer, under the names of a request's fields. With `what`, the
        exchange is also a step of the transaction. Returns None without a transactional id or beyond the maximum number
        of transactions.
        """
        name = who.get("transactionalId")
        if not isinstance(name, str) or not name:
            return None
        one = self._open.get(name)
        if one is None:
            one = Transaction(
                name, who.get("producerId", -1), who.get("producerEpoch", -1), self._producers.get(name),
                seen.time, seen.number, self._timeouts.get(name, DEFAULT_TIMEOUT_MS),
            )  # fmt: skip
            if len(self._all) >= MOST:
                self.more += 1
                return None
            self._all.append(one)
            self._open[name] = one
        if by_producer and not one.by_producer:
            one.client, one.by_producer = seen.client, True
        one.began, one.first = min((one.began, one.first), (seen.time, seen.number))
        one.last = max(one.last, seen.number)
        if group := who.get("groupId"):
            one.groups.add(group)
        if what:
            one.steps.append((seen.time, seen.number, what + _failed(seen)))
        one.failure = errors.name(seen.errors[0]) if seen.errors else None
        if FENCED.intersection(seen.errors):
            one.state, one.ended = State.FENCED, seen.answered_at
            self._open.pop(name, None)
        return one


def _failed(seen: Seen) -> str:
    return f": {', '.join(errors.name(code) for code in seen.errors)}" if seen.errors else ""
