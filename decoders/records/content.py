"""Iterates over the records that an exchange carries and over their batches, for searches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kproxy.decoders.batches.batch import Batches, parse, parse_unaligned
from kproxy.decoders.batches.opening import HARMLESS
from kproxy.decoders.batches.record import Record
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.records.form import Allowance
from kproxy.decoders.records.places import Place, places
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.view import PLAIN, View


def contents(
    api_key: int | None, asked: Any, answered: Any, definitions: Definitions, knowledge: Knowledge, view: View = PLAIN
) -> Iterator[tuple[Record, str | None] | None]:
    """(record, topic name or None if unknown) for all records of an exchange except control records.

    `asked` and `answered` are the bodies, None if missing. An item None stands for records that are unreadable or
    exceed the view's limit. A batch is decompressed only when the iteration reaches it.
    """
    found = places(api_key, asked, answered, knowledge, definitions)
    allowance = Allowance(view, sum(len(place.records) for place in found))
    for place in found:
        start, parsed = _parsed(place)
        records = place.records[start:] if start else place.records
        if any(trouble.code not in HARMLESS for trouble in parsed.troubles):
            yield None
        for batch in parsed.batches:
            if batch.header.get("isControl"):
                continue
            for opened in allowance.open(records, batch):
                if opened.uncompressed_size is None or any(one.code not in HARMLESS for one in opened.troubles):
                    yield None
                for record in opened.records:
                    yield record, place.topic


def batches(
    api_key: int | None, asked: Any, answered: Any, definitions: Definitions, knowledge: Knowledge
) -> Iterator[Mapping[str, Any] | None]:
    """The headers, as in the exchange JSON, of all record batches of an exchange except control batches.

    The parameters are those of `contents`. An item None stands for unreadable batches. Nothing is decompressed.
    """
    for place in places(api_key, asked, answered, knowledge, definitions):
        _, parsed = _parsed(place)
        if any(trouble.code not in HARMLESS for trouble in parsed.troubles):
            yield None
        for batch in parsed.batches:
            if not batch.header.get("isControl"):
                yield batch.header


def _parsed(place: Place) -> tuple[int, Batches]:
    """(offset of the first whole batch, the parsed batches) of a records field."""
    return (0, parse(place.records)) if place.aligned else parse_unaligned(place.records)
