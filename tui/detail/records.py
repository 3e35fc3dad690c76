"""The records of an exchange as lines; batches are read only as far as lines are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kproxy.decoders.plurals import counted
from kproxy.decoders.records import skipped
from kproxy.decoders.view import PLAIN, View

if TYPE_CHECKING:
    from kproxy.decoders.batches.batch import Batch
    from kproxy.decoders.batches.record import Record
    from kproxy.decoders.records.places import Place

AT_ONCE: Final = 1_000
"""Number of lines that one call of `take` reads."""
MOST_OF_BATCH: Final = 100_000
"""Maximum number of records that are read of a batch."""
SKIPPED: Final = {skipped.BELOW: "below fetch offset", skipped.ABORTED: "aborted"}
"""Why a client drops a record, in words."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The exchange of a record: its number, its client, and whether the client sent the record."""

    number: int
    client: str
    sent: bool


@dataclass(frozen=True, slots=True)
class RecordLine:
    """A record with facts from its batch and its exchange.

    `uncompressed` is the batch's decompressed size in bytes, `assigned` the offset that the broker gave the record,
    `skipped` a key of SKIPPED, `kind` the type of a control record. Each is None if absent; so is `origin`, unless
    records of several exchanges are shown together.
    """

    place: Place
    batch: Batch
    number: int
    record: Record
    uncompressed: int | None
    assigned: int | None
    skipped: str | None
    kind: str | None
    origin: Origin | None = None

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        _, _, key, value, headers = self.record
        return len(key or b"") + len(value or b"") + sum(len(name) + len(content or b"") for name, content in headers)


@dataclass(frozen=True, slots=True)
class TextLine:
    """A topic's name or a message; `severity` is a letter of terminal.look.SEVERITY, "" if nothing is wrong."""

    text: str
    severity: str = ""
    topic: bool = False
    origin: Origin | None = None


Line = RecordLine | TextLine


class LinesRead:
    """The lines read so far; `take` reads more, in one thread at a time.

    `origins` says whether the records are of several exchanges, `has_assigned` whether a broker's response gives their
    offsets.
    """

    origins = False

    def __init__(self, rest: Iterator[Line], *, has_assigned: bool = False) -> None:
        self.lines: list[Line] = []
        self.counts: Counter[str] = Counter()
        self.records = 0
        self.has_assigned = has_assigned
        self.complete = False
        self._rest = rest

    def take(self, count: int = AT_ONCE) -> None:
        """Read up to `count` more lines."""
        found = list(islice(self._rest, count))
        for line in found:
            if isinstance(line, RecordLine):
                self.records += 1
                if line.skipped is not None:
                    self.counts[line.skipped] += 1
        self.lines = self.lines + found
        self.complete = len(found) < count

    def summary(self) -> str:
        """What was read, in words: "8 records, 3 below fetch offset, 2 aborted"."""
        number = counted(self.records, "record", ",")
        parts = [number if self.complete else f"the first {number}"]
        parts += [f"{self.counts[mark]:,} {words}" for mark, words in SKIPPED.items() if self.counts[mark]]
        return ", ".join(parts)


class RecordLines(LinesRead):
    """The records of one exchange; a line with the topic's name stands above the records of each topic."""

    def __init__(self, places: Sequence[Place], view: View = PLAIN) -> None:
        super().__init__(_read(places, view), has_assigned=any(place.assigned is not None for place in places))


def _read(places: Iterable[Place], view: View) -> Iterator[Line]:
    topic: Any = None
    for place in places:
        known = place.topic or (None if place.topic_id is None else place.topic_id.hex())
        if known != topic or topic is None:
            topic = known
            yield TextLine(place.topic or f"topic id {known}", topic=True)
        yield from lines_of(place, view)


def lines_of(place: Place, view: View, origin: Origin | None = None) -> Iterator[Line]:
    """The records of one partition, and messages about the problems of their batches."""
    from kproxy.decoders.records.partition import PartitionRecords

    found = PartitionRecords(place, view)

    def said(text: str, severity: str = "") -> TextLine:
        return TextLine(f"partition {place.partition}: {text}", severity, origin=origin)

    if found.start:
        yield said(f"{found.start} bytes of a batch that began before")
    before = 0
    for index, batch in enumerate(found.batches):
        opened = found.open(index, most=MOST_OF_BATCH)
        control_batch = bool(batch.header.get("isControl"))
        for number, record in enumerate(opened.records):
            yield RecordLine(
                place,
                batch,
                number,
                record,
                opened.uncompressed_size,
                found.assigned(before + number),
                found.skipped(index, record[0]),
                _kind(record) if control_batch else None,
                origin,
            )
        count = batch.header.get("recordCount", len(opened.records))
        before += count
        if not batch.header["crcValid"]:
            yield said("the batch's CRC does not match its bytes", "E")
        for trouble in opened.troubles:
            yield said(trouble.message, "E")
        if len(opened.records) == MOST_OF_BATCH < count:
            yield said(f"… {count - MOST_OF_BATCH:,} more of this batch")
    for trouble in found.troubles:
        if not trouble.path:
            yield said(trouble.message, "E")
    if found.tail and not any(not trouble.path for trouble in found.troubles):
        whole = found.tail_size()
        of = "" if whole is None else f" of {whole}"
        yield said(f"partial message, {found.tail}{of} bytes")


def _kind(record: Record) -> str:
    from kproxy.decoders.records import control

    number = control.type_of(record[2])
    return "?" if number is None else control.type_name(number)
