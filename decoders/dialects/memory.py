"""What the messages of a connection told, as far as the layouts and the time rules of later ones depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.decoders.schema.dialect import Dialect, Told


class Memory:
    """Values by message and field, the latest of each."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._wanted = dialect.remembered
        self._values: dict[Told, Any] = {}
        self.told = "?" * len(dialect.told)
        """As `Exchange.told`."""

    def learn(self, message: str, body: Mapping[str, Any] | None) -> None:
        """Keep what is wanted of a message that was seen; of one that could not be read nothing is known any more."""
        for one in self._wanted:
            if one.message == message:
                self._values.pop(one, None)
                if body is not None and one.field in body:
                    self._values[one] = body[one.field]
        self.told = "".join(map(self._truth, range(len(self._dialect.told))))

    def get(self, told: int | Told) -> int | None:
        """A limit: a number, or the value that a message told; None where none did, or one below 0."""
        value = self._values.get(told) if isinstance(told, Told) else told
        return value if isinstance(value, int) and value >= 0 else None

    def _truth(self, index: int) -> str:
        condition = self._dialect.told[index]
        if not isinstance(condition.source, Told) or condition.source not in self._values:
            return "?"
        return "1" if self._values[condition.source] == condition.value else "0"
