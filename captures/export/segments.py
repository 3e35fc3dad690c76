"""Writes log segments as JSON Lines: "kproxy.batch/1" and "kproxy.segment/1", or "kproxy.record/1" for each record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kproxy.captures.export.encoding import encode
from kproxy.captures.export.records import batch_facts, record_line
from kproxy.captures.segments import Segment, StoredBatch
from kproxy.decoders.batches.batch import Trouble
from kproxy.decoders.plurals import are, counted

BATCH: Final = "kproxy.batch/1"
SEGMENT: Final = "kproxy.segment/1"


def batch_json(batch: StoredBatch) -> dict[str, Any]:
    """The JSON object of a batch with its records."""
    problems = [_problem(one) for one in batch.troubles]
    if batch.left_out:
        problems.append(
            {
                **problems[-1],
                "path": "",
                "message": f"{counted(batch.left_out, 'further problem')} {are(batch.left_out)} left out",
            }
        )
    return {
        "schema": BATCH,
        **_place(batch.segment),
        "position": batch.position,
        **batch.form,
        "problems": problems,
    }


def segment_json(segment: Segment) -> dict[str, Any]:
    """The JSON object of a segment file with the totals of its batches."""
    first, last = segment.times or (None, None)
    return {
        "schema": SEGMENT,
        **_place(segment),
        "sizeInBytes": segment.size,
        "uncompressedSizeInBytes": segment.uncompressed,
        "batches": segment.batches,
        "records": segment.records,
        "firstOffset": segment.first,
        "lastOffset": segment.last,
        "firstTimestamp": first,
        "maxTimestamp": last,
        "compression": dict(segment.compression.most_common()),
        "truncatedTail": segment.tail,
        "problems": [_problem(one) for one in segment.troubles],
    }


def batch_lines(items: Iterable[StoredBatch | Segment]) -> Iterator[bytes]:
    """A line for each batch, and after the batches of a file a line for the file."""
    for item in items:
        yield encode(segment_json(item) if isinstance(item, Segment) else batch_json(item)) + b"\n"


class StoredRecords:
    """Writes a line for each record in log segments; `problems` counts problems of the records."""

    def __init__(self) -> None:
        self.problems = 0

    def lines(self, items: Iterable[StoredBatch | Segment]) -> Iterator[bytes]:
        for item in items:
            self.problems += len(item.troubles)
            if isinstance(item, StoredBatch):
                self.problems += item.left_out
                yield b"".join([encode(line) + b"\n" for line in self.records(item)])

    def records(self, batch: StoredBatch) -> Iterator[dict[str, Any]]:
        """The JSON objects of a batch's records."""
        segment, header = batch.segment, batch_facts(batch.form)
        facts = {
            "file": segment.file,
            "position": batch.position,
            "topic": segment.topic,
            "partition": segment.partition,
        }
        for record in batch.form["records"] or ():
            yield record_line(facts, record, header)


def _place(segment: Segment) -> dict[str, Any]:
    return {"file": segment.file, "topic": segment.topic, "partition": segment.partition}


def _problem(trouble: Trouble) -> dict[str, Any]:
    return {
        "offset": trouble.offset,
        "path": trouble.path,
        "message": trouble.message,
        "code": trouble.code.value,
    }
