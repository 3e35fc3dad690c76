"""A row of the table of meanings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class When(Enum):
    """What a value may be, where a row does not name the value itself; a named value goes first, then in this order."""

    NULL = "null"
    EMPTY = "empty"
    """Text, bytes or an array without anything in it."""
    NEGATIVE = "negative"
    POSITIVE = "positive"
    ANY = "any"


NULL, EMPTY, NEGATIVE, POSITIVE, ANY = When
NO_ID = bytes(16)
"""A uuid of zeros."""

Key = When | int | str | bytes
Texts = Mapping[Key, str]
"""What values mean."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a field is for and what its values mean.

    `messages` are names of messages with blanks between them, or "*" for all that have such a field. `path` is the
    field's place without indexes ("topics[].partitions[].leaderEpoch"; "ids[]" is an element of an array of numbers);
    "*.leaderEpoch" is the field wherever it stands, "" the message itself. `versions` are those for which the row
    holds; without them it holds wherever the field is. `read` puts the meaning of a value together where it has parts.
    The first row that has something to say is taken, of rows that name the whole place before those that do not.
    """

    messages: str
    path: str
    help: str = ""
    values: Texts = field(default_factory=dict)
    versions: str = ""
    read: Callable[[int], str] | None = None

    def value(self, value: Any) -> str | None:
        """What a value means; None where the row says nothing about it."""
        if value is None:
            return self.values.get(NULL)
        if isinstance(value, memoryview | bytearray):
            value = bytes(value[:17])
        if isinstance(value, int | str | bytes) and (named := self.values.get(value)) is not None:
            return named
        if self.read is not None and isinstance(value, int):
            return self.read(value)
        if not isinstance(value, int | float):
            return self.values.get(EMPTY if not value else ANY) or self.values.get(ANY)
        if value < 0 and NEGATIVE in self.values:
            return self.values[NEGATIVE]
        if value > 0 and POSITIVE in self.values:
            return self.values[POSITIVE]
        return self.values.get(ANY)
