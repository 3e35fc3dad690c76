"""The base of objects that are a mapping, in the form of an export's JSON, and also have attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any


class JsonObject(Mapping[str, Any], ABC):
    """A JSON object, read by keys: `one["api"]`, `one.keys()`, `dict(one)`. Subclasses add attributes.

    Two of them are equal if their JSON is equal. Treat the values as read-only: they are kept, not copied.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def json(self) -> Mapping[str, Any]:
        """The JSON object as Python values: dict, list, str, int, float, bool and None."""

    def to_json(self) -> str:
        """The JSON text, on one line, as `kproxy export` writes it."""
        from kproxy.captures.export.encoding import encode

        return encode(self.json).decode()

    def __getitem__(self, key: str) -> Any:
        return self.json[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.json)

    def __len__(self) -> int:
        return len(self.json)
