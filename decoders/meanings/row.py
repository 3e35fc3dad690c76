"""A row of the table of meanings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class When(Enum):
    """Kinds of values for rows that do not name a value; a named value has precedence, then this order."""

    NULL = "null"
    EMPTY = "empty"
    """Empty text, bytes or array."""
    NEGATIVE = "negative"
    POSITIVE = "positive"
    ANY = "any"


NULL, EMPTY, NEGATIVE, POSITIVE, ANY = When
NO_ID = bytes(16)
"""A uuid of zeros."""

Key = When | int | str | bytes
Texts = Mapping[Key, str]
"""Meanings by value or kind of value."""


@dataclass(frozen=True, slots=True)
class Row:
    """A field's purpose and the meanings of its values.

    `messages` are message names separated by blanks, or "*" for all with this field. `path` is the
    field's place without indexes ("topics[].partitions[].leaderEpoch"; "ids[]" is an element of an array of numbers);
    "*.leaderEpoch" is the field at any place, "" the message itself. `versions` limits the row to some versions. `read`
    composes the meaning of a value that has parts. The first matching row with a meaning is taken; rows with a whole
    path come before those with "*".
    """

    messages: str
    path: str
    help: str = ""
    values: Texts = field(default_factory=dict)
    versions: str = ""
    read: Callable[[int], str] | None = None

    def value(self, value: Any) -> str | None:
        """The meaning of a value; None if the row has none."""
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
