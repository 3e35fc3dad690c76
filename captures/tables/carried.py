"""The batches that an exchange carries, partition by partition: their headers and, if wanted, sizes of records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from kproxy.captures.bodies import Bodies
from kproxy.captures.tables import places
from kproxy.captures.tables.places import Part
from kproxy.decoders.batches.batch import Head, head, heads, parse
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.records.form import Allowance
from kproxy.decoders.view import View

Sizes: TypeAlias = tuple[int | None, int | None, int | None]
"""Sizes in bytes of a batch's keys, values and headers; None if the batch was not measured or cannot be read."""
Batch: TypeAlias = tuple[*Head, *Sizes]
"""A batch as in the table record_batches, from the column base_offset on."""
Carried: TypeAlias = tuple[int, list[Head] | list[Batch], bool]
"""(size in bytes, complete batches, whether these were measured) of a records field; without sizes if they were not."""

OFFSET: Final = 0
COUNT: Final = 2
CODEC: Final = 4
KEYS: Final = 10
VALUES: Final = 11
UNMEASURED: Final[Sizes] = (None, None, None)


def parts(bodies: Bodies, batch_limit: int | None = None) -> list[Part]:
    """The Parts of the request, then those of the response, in order; their last values are Carried.

    With `batch_limit`, batches are measured; a batch that decompresses to more bytes cannot be read.
    """
    found: list[Part] = []
    for decoded in (bodies.request, bodies.response):
        if decoded is not None and decoded.body is not None and decoded.message is not None:
            made = _headers if batch_limit is None else _kept
            said = places.parts(decoded.body, decoded.message, decoded.version, made)
            found += said if batch_limit is None else _measured(said, batch_limit)
    return found


def as_captured(redacted: list[Part], captured: list[Part]) -> list[Part]:
    """The Parts of a redacted exchange with the batches of `captured`, its Parts before it was redacted.

    Redaction turns compressed batches into uncompressed ones of other records, so that their sizes mean nothing.
    """
    if len(redacted) != len(captured):
        return redacted
    return [(*one[:-1], other[-1]) for one, other in zip(redacted, captured, strict=True)]


def total(batches: Sequence[Head | Batch], index: int) -> int | None:
    """The sum of a size over the measured batches that can be read; None if there are batches, but none can be read."""
    known = [size for one in batches if isinstance(size := one[index], int)]
    return sum(known) if known or not batches else None


def _headers(records: Buffer) -> Carried:
    return len(records), heads(records), False


def _kept(records: Buffer) -> Buffer:
    return records


def _measured(said: list[Part], batch_limit: int) -> list[Part]:
    """The Parts of a message whose last values are records fields, with Carried in their place."""
    sizes = [len(one[-1]) for one in said if one[-1] is not None]
    if not sizes:
        return said
    # The batches of a message share one allowance, as where their records are decoded.
    allowance = Allowance(_view(batch_limit), sum(sizes))
    return [one if one[-1] is None else (*one[:-1], _field(one[-1], allowance)) for one in said]


@lru_cache(maxsize=4)
def _view(batch_limit: int) -> View:
    return View(batch_limit=batch_limit)


def _field(records: Buffer, allowance: Allowance) -> Carried:
    found: list[Batch] = []
    for batch in parse(records, check=False).batches:
        one, measured = head(batch), allowance.measure(records, batch)
        if measured.whole:
            sizes = measured.keys, measured.values, measured.headers
            found.append((*one[:2], measured.records, *one[3:], *sizes))
        else:
            found.append((*one, *UNMEASURED))
    return len(records), found, True
