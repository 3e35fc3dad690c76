"""Rebuilds the exchanges of an index from their rows, for code that needs their bodies."""

from __future__ import annotations

from kproxy.captures.errors import CaptureError
from kproxy.captures.index import format as layout
from kproxy.captures.index.format import Flag, Row, State
from kproxy.captures.index.reader import IndexReader
from kproxy.captures.opening import open_source
from kproxy.captures.source import FileSource
from kproxy.decoders.exchange import Connection, Exchange
from kproxy.decoders.exchange_row import ExchangeRow, Learnt
from kproxy.decoders.message import decode_request
from kproxy.decoders.schema import Definitions


class _Nothing:
    """A source without bytes, used if the captures cannot be opened."""

    def read(self, start: int, end: int) -> bytes:  # noqa: ARG002
        return b""


class Exchanges:
    """The exchanges of an index, in the form that filters evaluate; captures are opened at the first use."""

    def __init__(self, index: IndexReader, definitions: Definitions) -> None:
        self._index = index
        self._definitions = definitions
        self._source: FileSource | None = None
        self._count = 0
        self._last: tuple[int, Row, ExchangeRow] | None = None

    def row(self, number: int, row: Row) -> ExchangeRow:
        """The exchange with this number (from 1) and this index row.

        Never raises; if bytes were deleted, its frames are shorter.
        """
        last = self._last
        if last is not None and last[0] == number and last[1] == row:
            return last[2]
        source = self._opened() or _Nothing()
        exchange = self._exchange(number, row)
        if row.client and exchange.client_id == "" and exchange.request is not None:
            header = decode_request(exchange.request.data(source), self._definitions).header
            exchange.client_id = header.get("clientId")
        made = ExchangeRow(exchange, source, self._definitions, Learnt(self._index.knowledge))
        self._last = number, row, made
        return made

    def close(self) -> None:
        self._last = None
        if self._source is not None:
            self._source.close()
            self._source = None

    def _exchange(self, number: int, row: Row) -> Exchange:
        index = self._index
        entry = index.connection(row.connection)
        detail = index.detail(row)
        client_id = index.string(row.client)
        return Exchange(
            number,
            Connection(row.connection, index.string(entry.client), index.string(entry.broker), entry.first_time),
            None if row.api_key == layout.NO_NUMBER else row.api_key,
            None if row.api_version == layout.NO_NUMBER else row.api_version,
            None if row.flags & Flag.NO_CORRELATION else row.correlation,
            "" if len(client_id.encode()) > layout.STRING_LIMIT - 8 else client_id or None,
            detail.request,
            detail.response,
            layout.STATUS_OF[State(row.state)],
            detail.reason,
            detail.problems,
            bool(row.flags & Flag.TOKEN),
            index.protocol(row),
            detail.asked_by,
            detail.truths,
        )

    def _opened(self) -> FileSource | None:
        """The source of the captures, extended if the index has grown; None if it cannot be opened."""
        try:
            if self._source is None:
                self._source = open_source(self._index.meta["sources"], ordered=True)
            elif self._index.count != self._count:
                self._source.grow()
        except CaptureError:
            return self._source
        self._count = self._index.count
        return self._source
