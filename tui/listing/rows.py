"""An index row as the cells of the list: pure text, so that it can be tested without a screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kproxy.captures.index import format as layout
from kproxy.captures.index.format import Flag, Row, State
from kproxy.captures.index.reader import IndexReader
from kproxy.captures.text import RESULTS, api_text, delay_text, latency_text, size_text
from kproxy.decoders.fields import BY_NAME, Field, Type
from kproxy.decoders.schema import Definitions, errors
from kproxy.tui.listing.times import Times, of_day

if TYPE_CHECKING:
    from kproxy.captures.index.values import RowValues
    from kproxy.tui.listing.notes import Notes
    from kproxy.tui.views.findings import Found

RESULT = {layout.STATE_OF[status]: text for status, text in RESULTS.items()} | {State.EMPTY: ""}
"""Text of the Result column for exchanges without an error, by state."""

STATE_LETTER = {
    State.WAITING: ">",
    State.NO_REPLY_EXPECTED: "0",
    State.NO_RESPONSE: "?",
    State.ORPHAN_RESPONSE: "?",
    State.CUT: "?",
}

CUT = "/"
"""The sign in the list for an exchange whose last record batch is incomplete."""

EVIDENCE = "!"
"""The sign in the list for an exchange that is evidence of a finding."""


class RowText:
    """Makes cells from rows of one index."""

    def __init__(self, index: IndexReader, definitions: Definitions, *, now: Callable[[], int] | None = None) -> None:
        self._index = index
        self._definitions = definitions
        self._now = now
        self.notes: Notes | None = None
        self.found: Found | None = None
        self.times = Times(self.time_of_day)
        self._second = -1
        self._clock = ""
        self._values: RowValues | None = None
        self._getters: dict[str, list[Callable[[Row], Any]]] = {}
        """Functions that read the parts of an attribute, by its name, for attributes without a method in this class."""
        self._own: dict[str, Callable[[int, Row], str]] = {
            "state": self._state,
            "exchange": self._number,
            "time": self._time,
            "connection": self._connection,
            "client.id": self._client,
            "broker": self._broker,
            "api": self._api,
            "label": self._label,
            "result": self._result,
            "latency": self._latency,
            "request.size": self._request,
            "response.size": self._response,
            "records": self._records,
        }

    def cell(self, name: str, number: int, row: Row) -> str:
        """The text of column `name`; `number` is the exchange's number. Text from the wire is not escaped yet."""
        own = self._own.get(name)
        return self._attribute(name, number, row) if own is None else own(number, row)

    def severity(self, row: Row) -> str:
        """The severity of a row: E if it could not be read, W for an error, N for one that clients retry, else ""."""
        if row.state in (State.UNDECODABLE, State.CUT) or row.flags & Flag.PROBLEMS:
            return "E"
        if row.error:
            return "N" if errors.retriable(row.error) else "W"
        return ""

    def api(self, row: Row) -> str:
        """API and version: "Produce v11", "Key 32001 v0", "SaslToken", "(unmatched)"."""
        if row.state == State.TLS:
            return "TLS"
        key = None if row.api_key == layout.NO_NUMBER else row.api_key
        version = None if row.api_version == layout.NO_NUMBER else row.api_version
        protocol = self._index.protocol(row)
        return api_text(self._definitions, key, version, token=bool(row.flags & Flag.TOKEN), protocol=protocol)

    def api_class(self, row: Row) -> str:
        protocol = self._index.protocol(row)
        if protocol is not None:
            return protocol
        known = None if row.api_key == layout.NO_NUMBER else self._definitions.api(row.api_key)
        return "" if known is None else known.klass

    def error(self, row: Row) -> str:
        """Name of the first error, as the API and version of the exchange define it."""
        key = None if row.api_key == layout.NO_NUMBER else row.api_key
        return self._definitions.error_name(row.error, key, row.api_version, self._index.protocol(row))

    def time_of_day(self, nanoseconds: int) -> str:
        """Local time with milliseconds, "12:34:56.789", of a time in nanoseconds since the epoch."""
        second, rest = divmod(nanoseconds, 1_000_000_000)
        if second != self._second:
            self._clock = of_day(second)
            self._second = second
        return f"{self._clock}.{rest // 1_000_000:03d}"

    def node(self, row: Row) -> str:
        node = self._index.connection(row.connection).node
        return "" if node == layout.NO_NODE else str(node)

    def _attribute(self, name: str, number: int, row: Row) -> str:
        """The cell of an attribute for which this class has no method; "" if the exchange has no value."""
        from kproxy.captures.index.values import RowValues
        from kproxy.decoders.filters import Unavailable

        if self._values is None:
            self._values = RowValues(self._index, self._definitions)
        self._values.number = number
        field = BY_NAME[name]
        parts = self._getters.get(name)
        if parts is None:
            parts = self._getters[name] = [self._values.getter(part) for part in field.attributes]
        found: list[Any] = []
        try:
            for part in parts:
                if field.many:
                    found += part(row)
                elif (value := part(row)) is not None:
                    found.append(value)
        except Unavailable:
            pass  # what is known is shown
        if len(parts) > 1 and found:
            found = [sum(found)]
        return ", ".join(self._text(field, value) for value in found)

    def _text(self, field: Field, value: int | str) -> str:
        """The text of one value of an attribute."""
        if field.type is Type.FLAG:
            return "yes" if value else ""
        if isinstance(value, str):
            return value
        if field.type is Type.DURATION:
            return latency_text(value)
        if field.type is Type.TIME:
            return self.time_of_day(value)
        return size_text(value) if field.type is Type.SIZE else str(value)

    def _state(self, number: int, row: Row) -> str:
        state = "~" if row.flags & Flag.MODIFIED else STATE_LETTER.get(State(row.state), " ")
        noted = self.notes.letter(number - 1, row) if self.notes is not None else ""
        evidence = EVIDENCE if self.found is not None and self.found.is_evidence(number - 1) else ""
        last = noted or evidence or (CUT if row.flags & Flag.CUT_RECORDS else " ")
        return f"{self.severity(row) or ' '}{state}{last}"

    def _number(self, number: int, _row: Row) -> str:
        return str(number)

    def _time(self, _number: int, row: Row) -> str:
        return self.time_of_day(row.time) if row.time else ""

    def _connection(self, _number: int, row: Row) -> str:
        return str(row.connection)

    def _client(self, _number: int, row: Row) -> str:
        return self._index.string(row.client)

    def _broker(self, _number: int, row: Row) -> str:
        return self.node(row)

    def _api(self, _number: int, row: Row) -> str:
        return self.api(row)

    def _label(self, _number: int, row: Row) -> str:
        if row.api_key == layout.NO_NUMBER and not row.flags & Flag.TOKEN and row.state != State.TLS:
            return f"#{row.correlation} conn {row.connection}"
        return self._index.string(row.label)

    def _result(self, _number: int, row: Row) -> str:
        if row.error:
            more = f" +{row.more_errors}" if row.more_errors else ""
            return f"{row.error} {self.error(row)}{more}"
        text = RESULT[State(row.state)]
        if row.latency == layout.NO_LATENCY:
            return text
        waited, throttled = bool(row.flags & Flag.WAITED), bool(row.flags & Flag.THROTTLED)
        return text + delay_text(long_poll=waited, throttled=throttled)

    def _latency(self, _number: int, row: Row) -> str:
        if row.latency != layout.NO_LATENCY:
            return latency_text(row.latency)
        if row.state == State.WAITING and self._now is not None and row.time:
            return latency_text(max(0, self._now() - row.time))
        return "-"

    def _request(self, _number: int, row: Row) -> str:
        return "" if row.request_size == layout.NO_SIZE else size_text(row.request_size + layout.LENGTH)

    def _response(self, _number: int, row: Row) -> str:
        return "" if row.response_size == layout.NO_SIZE else size_text(row.response_size + layout.LENGTH)

    def _records(self, _number: int, row: Row) -> str:
        return "" if row.records == layout.NO_RECORDS else size_text(row.records)
