"""The type of the rows in the table of meanings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class When(Enum):
    """Kinds of values that a row can explain. A row's text for one value comes first, then its texts in this order."""

    NULL = "null"
    EMPTY = "empty"
    """An empty text, bytes or array."""
    NEGATIVE = "negative"
    POSITIVE = "positive"
    ANY = "any"


NULL, EMPTY, NEGATIVE, POSITIVE, ANY = When
NO_ID = bytes(16)
"""A uuid of zeros, which stands for a missing id."""

Key = When | int | str | bytes
Texts = Mapping[Key, str]
"""Texts by value, or by kind of value."""


@dataclass(frozen=True, slots=True)
class Row:
    """The purpose of a field (`help`) and the meanings of its values.

    `messages` are message names separated by blanks, or "*" for all messages with this field. `path` is the field's
    path without indexes ("topics[].partitions[].leaderEpoch"; "ids[]" is an element of an array of numbers);
    "*.leaderEpoch" is the field at any path, "" the message itself. `versions` limits the row to some versions of the
    messages. `read` makes the meaning of a value that has parts. The first matching row with a meaning is taken; rows
    with a whole path come before those with "*".
    """

    messages: str
    path: str
    help: str = ""
    values: Texts = field(default_factory=dict)
    versions: str = ""
    read: Callable[[int], str] | None = None

    def value(self, value: Any) -> str | None:
        """The meaning of a value; None if the row has no text for it."""
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
