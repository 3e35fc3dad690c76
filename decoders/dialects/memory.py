"""Remembers values of a connection's messages, for layouts and time rules of later messages that depend on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.decoders.schema.dialect import Dialect, EarlierField


class Memory:
    """The latest value of each field that later messages depend on."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._wanted = dialect.remembered
        self._values: dict[EarlierField, Any] = {}
        self.truths = "?" * len(dialect.conditions)
        """The truth of each of the dialect's conditions, in the form of `Exchange.truths`."""

    def learn(self, message: str, body: Mapping[str, Any] | None) -> None:
        """Remember the values of a message that later ones depend on; if `body` is None, they become unknown."""
        for one in self._wanted:
            if one.message == message:
                self._values.pop(one, None)
                if body is not None and one.field in body:
                    self._values[one] = body[one.field]
        self.truths = "".join(map(self._truth, range(len(self._dialect.conditions))))

    def get(self, limit: int | EarlierField) -> int | None:
        """A limit: `limit` itself if it is a number, else the remembered value of that field.

        None if the value is negative, or if no message had it.
        """
        value = self._values.get(limit) if isinstance(limit, EarlierField) else limit
        return value if isinstance(value, int) and value >= 0 else None

    def _truth(self, index: int) -> str:
        condition = self._dialect.conditions[index]
        if not isinstance(condition.source, EarlierField) or condition.source not in self._values:
            return "?"
        return "1" if self._values[condition.source] == condition.value else "0"
