"""The records of one partition, opened batch by batch, with facts about them from the rest of the exchange."""

from __future__ import annotations

from kproxy.decoders.batches.batch import parse, parse_unaligned
from kproxy.decoders.batches.opening import Opened, open_batch
from kproxy.decoders.records import control, skipped
from kproxy.decoders.records.places import Place
from kproxy.decoders.view import PLAIN, View


class PartitionRecords:
    """The batches of a records field; each is decompressed when it is opened.

    Positions of batches count from `start`, the number of leading bytes that belong to an earlier batch.
    """

    def __init__(self, place: Place, view: View = PLAIN) -> None:
        self.place = place
        self.start, parsed = (0, parse(place.records)) if place.aligned else parse_unaligned(place.records)
        self.batches = parsed.batches
        self.tail = parsed.truncated_tail
        self.troubles = parsed.troubles
        self.records = place.records[self.start :] if self.start else place.records
        self._limit = view.batch_limit
        self._aborted: frozenset[int] | None = None

    def open(self, index: int, *, most: int | None = None) -> Opened:
        """Read the records of the batch at `index`, at most `most` of them if it has magic 2.

        Never raises on any bytes.
        """
        return open_batch(self.records, self.batches[index], limit=self._limit, most=most)

    @property
    def aborted(self) -> frozenset[int]:
        """Indexes of the batches that belong to aborted transactions."""
        if self._aborted is None:
            headers = [batch.header for batch in self.batches]
            transactions = self.place.aborted
            self._aborted = frozenset(skipped.aborted(headers, transactions, self._is_abort) if transactions else ())
        return self._aborted

    def skipped(self, index: int, offset: int) -> str | None:
        """Why a client drops the record at `offset` in the batch at `index`; None if the client uses the record."""
        asked = self.place.fetch_offset
        if asked is not None and offset < asked:
            return skipped.BELOW
        return skipped.ABORTED if index in self.aborted else None

    def assigned(self, before: int) -> int | None:
        """The offset that the broker assigned to a record; `before` is the number of records before it in the request.

        None if it is unknown.
        """
        return None if self.place.assigned is None else self.place.assigned + before

    def tail_size(self) -> int | None:
        """Size in bytes that the incomplete batch at the end states; None if its size field is incomplete or wrong."""
        if self.troubles and self.troubles[-1].path == "":
            return None
        rest = self.records[len(self.records) - self.tail :]
        if len(rest) < _SIZE_ENDS:
            return None
        return _SIZE_ENDS + int.from_bytes(rest[_SIZE_ENDS - 4 : _SIZE_ENDS], "big", signed=True)

    def _is_abort(self, index: int) -> bool:
        records = self.open(index, most=1).records
        return bool(records) and control.type_of(records[0][2]) == skipped.ABORT


_SIZE_ENDS = 12
"""Offset at which the size field of a batch ends in all formats: after base offset (8 bytes) and size (4 bytes)."""
