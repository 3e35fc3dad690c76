"""Writes exchanges as CSV: a row for each, with the chosen columns.

Bodies are decoded only for columns that need them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from kproxy.captures.export import Reading
from kproxy.decoders.escaping import escape, in_sheet
from kproxy.decoders.exchange import Exchange, Frame, Health, StreamProblem
from kproxy.decoders.exchange_json import SASL_TOKEN, exchange_json, milliseconds, timestamp
from kproxy.decoders.exchange_row import ExchangeRow, Unavailable
from kproxy.decoders.fields import FIELDS, Field, Type, attribute
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.view import View

NEEDS_QUOTES = re.compile(r'[",\r\n]').search

Cells = dict[str, Any]

_UNOPENED = View(open_batches=False, inside=False, knowledge=Knowledge(most=0))

HEADER_COLUMNS: dict[str, str] = {
    "time": "time(x.request or x.response)",
    "exchange": "x.number",
    "connection": "x.connection.number",
    "client": "x.connection.client",
    "broker": "x.connection.broker",
    "api": "api(x)",
    "api_key": "number(x.api_key)",
    "version": "number(x.api_version)",
    "correlation_id": "number(x.correlation_id)",
    "client_id": "text(x.client_id)",
    "latency_ms": "latency(x)",
    "request_size": "'' if x.request is None else x.request.size",
    "response_size": "'' if x.response is None else x.response.size",
}
"""By column, the Python expression for its cell; x is the exchange, other names are those of `CsvLines`, "" is no
value.
"""
BODY_COLUMNS: dict[str, str] = {
    "status": "body['status']",
    "error_codes": "text(' '.join(body['error_codes']))",
}
"""By column, the expressions that need decoded bodies: only decoding shows that an exchange is undecodable."""
COLUMNS: tuple[str, ...] = (
    "time", "exchange", "connection", "client", "broker", "api", "api_key", "version", "correlation_id", "client_id",
    "status", "latency_ms", "request_size", "response_size", "error_codes",
)  # fmt: skip
"""The columns, in order, if the user chooses none."""
FURTHER_COLUMNS: dict[str, Field] = {field.csv: field for field in FIELDS if field.csv}
"""By column, further attributes of exchanges that the user can choose."""


def quoted(text: str | None) -> str:
    """A text as a CSV cell (RFC 4180), "" for None; control characters are escaped."""
    if text is None:
        return ""
    if not text.isprintable():
        text = escape(text)
    return '"' + text.replace('"', '""') + '"' if NEEDS_QUOTES(text) else text


class CsvLines:
    """Writes a line of the chosen columns for each exchange; problems and health have no line."""

    problems = 0

    def __init__(self, reader: Reading, columns: Sequence[str] = COLUMNS, *, formulas: bool = False) -> None:
        """With `formulas`, text that a spreadsheet would evaluate stays unchanged."""
        self.columns = tuple(columns)
        self._reader = reader
        self._precision = 6
        self._lines = _writer(self.columns)
        self._names: dict[str, Callable[..., Any]] = {
            "time": self._timestamps(),
            "number": lambda value: "" if value is None else value,
            "text": quoted if formulas else _for_sheets,
            "api": self._api,
            "latency": self._latency,
            "decoded": self._decoded,
            "further": self._further,
        }

    def begin(self) -> bytes:
        return ",".join(self.columns).encode() + b"\n"

    def lines(self, items: Sequence[Exchange | StreamProblem | Health]) -> bytes:
        """The lines of all exchanges among the items."""
        self._precision = self._reader.precision
        text = self._lines([item for item in items if type(item) is Exchange], **self._names)
        return text.encode("utf-8", "replace")

    def end(self) -> bytes:
        return b""

    def _timestamps(self) -> Callable[[Frame | None], str]:
        """A function that formats a frame's time; it caches the last second, which successive frames mostly share."""
        second, prefix = -1, ""

        def text(frame: Frame | None) -> str:
            nonlocal second, prefix
            if frame is None:
                return ""
            whole, rest = divmod(frame.time, 1_000_000_000)
            if whole != second:
                second, prefix = whole, timestamp(frame.time)[:20]
            return f"{prefix}{rest:09d}Z" if self._precision == 9 else f"{prefix}{rest // 1000:06d}Z"

        return text

    def _api(self, exchange: Exchange) -> str:
        if exchange.token:
            return SASL_TOKEN
        key = exchange.api_key
        return (None if key is None else self._reader.definitions.api_name(key, exchange.protocol)) or ""

    def _latency(self, exchange: Exchange) -> float | str:
        latency = exchange.latency_ns
        return "" if latency is None else milliseconds(latency, self._precision)

    def _further(self, column: str, exchange: Exchange) -> str:
        """The cell of a column in FURTHER_COLUMNS; "" if the value is missing or unknown."""
        field = FURTHER_COLUMNS[column]
        row = ExchangeRow(exchange, self._reader.source, self._reader.definitions)
        try:
            value = attribute(field.name)(row)
        except Unavailable:
            return ""
        return "" if value is None else self._names["text"](self._written(field.type, value))

    def _written(self, type_: Type, value: int | str) -> str:
        if isinstance(value, str):
            return value
        if type_ is Type.DURATION:
            return str(milliseconds(value, self._precision))
        if type_ is Type.TIME:
            return timestamp(value, self._precision)
        return str(bool(value)).lower() if type_ is Type.FLAG else str(value)

    def _decoded(self, exchange: Exchange) -> Cells:
        return exchange_json(
            exchange, self._reader.source, self._reader.definitions, view=_UNOPENED, precision=self._precision
        )


def _for_sheets(text: str | None) -> str:
    """A text as a CSV cell that no spreadsheet evaluates."""
    return quoted(None if text is None else in_sheet(text))


def _writer(columns: Sequence[str]) -> Callable[..., str]:
    """A compiled function that writes the chosen columns; calling a function for each cell would cost more than
    reading.
    """
    cells = {column: f"further('{column}', x)" for column in FURTHER_COLUMNS} | HEADER_COLUMNS | BODY_COLUMNS
    row = ",".join("{" + cells[column] + "}" for column in columns)
    body = "        body = decoded(x)\n" if any(column in BODY_COLUMNS for column in columns) else ""
    code = (
        "def lines(exchanges, time, number, text, api, latency, decoded, further):\n"
        "    out = []\n"
        "    for x in exchanges:\n"
        f"{body}"
        f'        out.append(f"""{row}\\n""")\n'
        "    return ''.join(out)\n"
    )
    names: dict[str, Any] = {}
    exec(compile(code, "<csv columns>", "exec"), names)  # noqa: S102  # text from the tables alone
    lines: Callable[..., str] = names["lines"]
    return lines
