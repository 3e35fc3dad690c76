"""Chooses the batches that are decompressed as samples, and makes the facts that need decompressed batches.

Capture time is divided into slots of 10 s. In each slot, each pair of client and partition has one candidate: its
batch with the smallest CRC. Only some candidates are opened (decompressed): those of the pairs with the lowest rank, a
checksum of pair and slot number. At most `OPEN` candidates of a slot are opened, and at most `ALWAYS` or one for each
`EACH` batches of the slot, whichever is more. So the choice depends only on time and content, and its cost stays
small compared to reading the capture. Facts of a slot are made `LATE` after the slot's end, because exchanges are not
quite in the order of their times.

Fetch responses are searched for sampled batches. A broker that compresses a batch again (Kafka's `LogValidator`) keeps
its records, producer id and sequence; consumers find the batch at the base offset of the Produce response.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from kproxy.captures.findings import facts
from kproxy.captures.findings.decoded_exchange import DecodedExchange
from kproxy.captures.findings.facts import At, Content, Fact
from kproxy.captures.findings.produced import Part
from kproxy.captures.findings.sample_facts import content, first_batch
from kproxy.decoders.batches.batch import Batch
from kproxy.decoders.schema import api_keys

SLOT: Final = 10_000_000_000
"""Length of a slot in nanoseconds."""
LATE: Final = SLOT
OPEN: Final = 32
"""Maximum number of candidates that are opened in a slot."""
ALWAYS: Final = 8
EACH: Final = 16
HELD: Final = 1 << 20
"""A candidate larger than this (bytes) is opened at once: keeping it until the slot ends would take much memory."""
MOST: Final = 20_000
"""Maximum number of pairs of client and partition that are counted in a slot."""
HEADS: Final = 16
"""Number of batches at the beginning of a fetched partition that are compared with sampled batches."""
KEPT: Final = 64
"""Maximum number of fetched batches of a partition that are remembered."""
CURRENT: Final = 2
"""The magic of record batches; lower values are those of message sets."""
MAKES: Final = frozenset({facts.Volume, facts.Sample, facts.Recoded})
Key: TypeAlias = tuple[str, str, str, int]
"""(client id, host, topic, partition)."""
Place: TypeAlias = tuple[str, int]


class Batched(NamedTuple):
    """The header of a batch, and its base offset in the log, from a Produce response or a Fetch response."""

    at: At
    offset: int
    header: Mapping[str, Any]


class Chosen:
    """The batches that a client sent to a partition within a slot: their totals, and the candidate for opening."""

    __slots__ = ("appended", "at", "batch", "batches", "content", "crc", "held", "rank", "records", "size")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.batches = self.records = self.size = 0
        self.at: At | None = None
        """The exchange that contains the candidate."""
        self.crc = 0
        self.batch: Batch | None = None
        """The candidate; None if the capture lacks some of its bytes."""
        self.held: bytes | None = None
        """The candidate's bytes, if it is to be opened at the end of the slot."""
        self.content: Content | None = None
        """The candidate's content, if it was opened at once."""
        self.appended = False
        """Whether the broker replaced the producer's timestamps in the candidate by its own."""

    @property
    def codec(self) -> str:
        return "none" if self.batch is None else str(self.batch.header["compression"])

    def drop(self) -> None:
        """Leave the candidate unopened."""
        self.held = self.content = None


class Sampler:
    """Samples the batches of a reading. Produce and Fetch exchanges may come in any order."""

    def __init__(self) -> None:
        self.due = 0
        """Capture time (ns) at which the oldest slot is complete; before it, `facts` yields nothing."""
        self._slots: dict[int, dict[Key, Chosen]] = {}
        self._open: dict[int, dict[Key, Chosen]] = {}
        """Maps each slot number to the pairs of client and partition whose candidate is to be opened."""
        self._made = 0
        """The highest number of a slot whose facts were made."""
        self._produced: dict[Place, Batched] = {}
        """Maps each partition to the latest sampled batch that no Fetch response has shown yet."""
        self._fetched: dict[Place, dict[int, Batched]] = {}
        """Maps each partition with samples to the first batches in its latest Fetch responses, by base offset."""
        self._recoded: dict[Place, facts.Recoded] = {}

    def take(self, decoded: DecodedExchange) -> None:
        """Take the bodies of a Produce or Fetch exchange."""
        if decoded.at.key == api_keys.PRODUCE:
            self._take_produce(decoded)
        elif self._fetched:
            self._take_fetch(decoded)

    def facts(self, now: int) -> Iterator[Fact]:
        """Yields the facts of the slots that are complete at the capture time `now` (ns)."""
        yield from self._facts(number for number in sorted(self._slots) if (number + 1) * SLOT + LATE <= now)

    def finish(self) -> Iterator[Fact]:
        """Yields the facts of all remaining slots."""
        yield from self._facts(sorted(self._slots))

    # --- what is produced ---

    def _take_produce(self, decoded: DecodedExchange) -> None:
        at = decoded.at
        number = at.time // SLOT
        if number <= self._made:
            number = self._made + 1  # the facts of this exchange's own slot were already made
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = {}
            self._open[number] = {}
            self._count_due()
        for part in decoded.parts:
            records = part.records
            if not records:
                continue
            key = at.client_id, at.peer, part.topic, part.partition
            chosen = slot.get(key)
            if chosen is None:
                if len(slot) >= MOST:
                    continue
                chosen = slot[key] = Chosen(zlib.crc32(f"{number} {key}".encode(errors="surrogatepass")))
            chosen.batches += 1
            chosen.size += len(records)
            crc = 0
            if part.head is not None:
                crc = part.head[1]
                chosen.records += max(0, part.head[5])
            if chosen.at is None or crc < chosen.crc or (crc == chosen.crc and at.time < chosen.at.time):
                chosen.at, chosen.crc = at, crc
                self._choose(number, key, chosen, at, part)

    def _choose(self, number: int, key: Key, chosen: Chosen, at: At, part: Part) -> None:
        """Make a batch the candidate of its pair; keep its bytes if the pair is among the OPEN pairs of lowest rank."""
        records, answer = part.records, part.answer
        batch = chosen.batch = first_batch(records)
        chosen.drop()
        if batch is None:
            return
        opened = self._open[number]
        if key not in opened and len(opened) >= OPEN:
            last = max(opened, key=lambda one: (opened[one].rank, one))
            if (opened[last].rank, last) < (chosen.rank, key):
                return
            opened.pop(last).drop()
        opened[key] = chosen
        if len(records) > HELD:
            chosen.content = content(records, batch)
        else:
            chosen.held = bytes(records)
        chosen.appended = answer.get("logAppendTimeMs", -1) >= 0
        self._written(at, key[2:], batch, answer)

    def _written(self, at: At, place: Place, batch: Batch, answer: Mapping[str, Any]) -> None:
        """Remember a sampled batch by its offset in the log, to recognise it in a Fetch response."""
        fetched = self._fetched.setdefault(place, {})
        _bound(self._fetched, OPEN * 4)
        offset = answer.get("baseOffset", -1)
        if offset < 0 or answer.get("errorCode"):
            return
        produced = Batched(at, offset, batch.header)
        self._produced.pop(place, None)
        self._produced[place] = produced
        _bound(self._produced, OPEN * 4)
        if offset in fetched:
            self._compare(place, produced, fetched[offset])

    # --- what is fetched ---

    def _take_fetch(self, decoded: DecodedExchange) -> None:
        for topic in decoded.response.get("responses") or ():
            name = decoded.topic(topic)
            for one in topic.get("partitions") or ():
                records = one.get("records")
                place = name, one.get("partitionIndex", 0)
                if not records or place not in self._fetched:
                    continue
                fetched, produced = self._fetched[place], self._produced.get(place)
                for header in _headers(records):
                    found = Batched(decoded.at, header.get("baseOffset", -1), header)
                    fetched[found.offset] = found
                    if produced is not None and produced.offset == found.offset:
                        self._compare(place, produced, found)
                _bound(fetched, KEPT)

    def _compare(self, place: Place, produced: Batched, found: Batched) -> None:
        before, after = produced.header, found.header
        self._produced.pop(place, None)
        if not _equal(produced, found):
            return
        if (before["compression"], before["magic"]) == (after["compression"], after["magic"]):
            return
        self._recoded[place] = facts.Recoded(
            found.at, *place, produced.offset, produced.at, before["compression"], before["magic"],
            before["sizeInBytes"], after["compression"], after["magic"], after["sizeInBytes"],
        )  # fmt: skip
        _bound(self._recoded, OPEN * 4)

    # --- facts ---

    def _facts(self, numbers: Iterable[int]) -> Iterator[Fact]:
        for number in list(numbers):
            self._made = max(self._made, number)
            slot = self._slots.pop(number)
            held = self._open.pop(number)
            allowed = max(ALWAYS, sum(one.batches for one in slot.values()) // EACH)
            for key in sorted(held, key=lambda one: (held[one].rank, one))[allowed:]:
                held[key].drop()
            for key in sorted(slot):
                yield from self._of(key, slot[key])
        self._count_due()

    def _of(self, key: Key, chosen: Chosen) -> Iterator[Fact]:
        at, batch, place = chosen.at, chosen.batch, key[2:]
        if at is None:
            return
        yield facts.Volume(at, *place, chosen.batches, chosen.records, chosen.size, chosen.codec)
        if batch is None or (chosen.held is None and chosen.content is None):
            return
        opened = chosen.content or content(chosen.held, batch)
        header = batch.header
        count = header["recordCount"] if header["magic"] == CURRENT else opened.read
        yield facts.Sample(
            at, *place, header["magic"], chosen.codec, header["sizeInBytes"], count, chosen.size,
            max(chosen.records, opened.read), None if chosen.appended else _newest(header), opened,
        )  # fmt: skip
        recoded = self._recoded.get(place)
        if recoded is not None and recoded.produced == at:
            yield self._recoded.pop(place)

    def _count_due(self) -> None:
        self.due = (min(self._slots) + 1) * SLOT + LATE if self._slots else 1 << 63


def _bound(kept: dict[Any, Any], most: int) -> None:
    """Remove the oldest entries of a dict that has more than `most`."""
    while len(kept) > most:
        del kept[next(iter(kept))]


def _headers(records: Any) -> Iterator[Mapping[str, Any]]:
    """Yields the headers of the first batches in a records field."""
    left = memoryview(records)
    for _ in range(HEADS):
        batch = first_batch(left)
        if batch is None:
            return
        yield batch.header
        left = left[batch.end :]


def _equal(produced: Batched, found: Batched) -> bool:
    """Whether two batches at one offset are the same batch; if not, they belong to different clusters."""
    before, after = produced.header, found.header
    if before["magic"] != CURRENT:
        return False
    if after["magic"] != CURRENT:
        return produced.at.broker == found.at.broker  # message sets have no producer id
    same = ["recordCount", "producerId", "baseSequence"]
    if after["timestampType"] == "CreateTime":
        same.append("maxTimestamp")
    return all(before[name] == after[name] for name in same)


def _newest(header: Mapping[str, Any]) -> int | None:
    """The newest timestamp (ms) in a batch; None if it has none, or if the broker set it instead of the producer."""
    newest = header.get("maxTimestamp", -1)
    return newest if header["timestampType"] == "CreateTime" and newest >= 0 else None
