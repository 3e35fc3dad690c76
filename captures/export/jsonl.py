"""Writes exchanges as JSON Lines, or as one JSON array of the same objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kproxy.captures.export import Reading
from kproxy.captures.export.encoding import LINE, encode
from kproxy.decoders.exchange import Exchange, Health, StreamProblem
from kproxy.decoders.exchange_json import exchange_json, health_json, problem_json
from kproxy.decoders.view import View


class JsonLines:
    """Writes one JSON object a line: exchanges and problems in the order of the reading, health last."""

    problems = 0

    def __init__(self, reader: Reading, view: View | None = None) -> None:
        self._reader = reader
        self._view = view or View()
        self._text = replace(self._view, text=True)

    def begin(self) -> bytes:
        return b""

    def lines(self, items: Sequence[Exchange | StreamProblem | Health]) -> bytes:
        return b"".join([encode(self._line(item, self._text), LINE) for item in items])

    def end(self) -> bytes:
        return b""

    def line(self, item: Exchange | StreamProblem | Health) -> dict[str, Any]:
        """The JSON object of an item."""
        return self._line(item, self._view)

    def _line(self, item: Exchange | StreamProblem | Health, view: View) -> dict[str, Any]:
        if isinstance(item, Exchange):
            return exchange_json(
                item,
                self._reader.source,
                self._reader.definitions,
                view=view,
                precision=self._reader.precision,
                health=self._reader.health,
            )
        if isinstance(item, StreamProblem):
            return problem_json(item, precision=self._reader.precision)
        return health_json(item)


class JsonArray(JsonLines):
    """Writes the same JSON objects as one array; health is its last element."""

    def begin(self) -> bytes:
        return b"[\n"

    def lines(self, items: Sequence[Exchange | StreamProblem | Health]) -> bytes:
        return b"".join(
            [encode(self._line(item, self._text)) + (b"\n" if isinstance(item, Health) else b",\n") for item in items]
        )

    def end(self) -> bytes:
        return b"]\n"
