"""Two exchanges field by field: which fields they share, and in which they differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

MOST: Final = 20_000
"""Maximum number of fields that are compared."""
NAMES: Final = (
    "name", "topicName", "topic", "topicId", "partitionIndex", "partition", "index", "brokerId", "nodeId", "groupId",
    "memberId", "resourceName", "apiKey", "feature", "key",
)  # fmt: skip
"""Fields that identify an element of a list: elements with the same value are compared, whatever their positions."""
OF_EVERY_EXCHANGE: Final = frozenset({"schema", "exchange"})
"""Members of the exchange JSON that are not compared."""


class Pair(NamedTuple):
    """The values that a field has in two exchanges, as text; None if an exchange does not have the field."""

    path: str
    first: str | None
    second: str | None

    @property
    def differs(self) -> bool:
        return self.first != self.second


class Comparison(NamedTuple):
    """The fields of two exchanges in their order; `cut`: there are more than MOST."""

    pairs: Sequence[Pair]
    cut: bool


def compare(first: Mapping[str, Any], second: Mapping[str, Any]) -> Comparison:
    """Compare two exchanges in the form of the exchange JSON."""
    kept = [{name: value for name, value in one.items() if name not in OF_EVERY_EXCHANGE} for one in (first, second)]
    found = list(islice(_pairs("", *kept), MOST + 1))
    return Comparison(found[:MOST], len(found) > MOST)


_ABSENT: Final = object()


def _pairs(path: str, first: Any, second: Any) -> Iterator[Pair]:
    """The fields at and below `path`; `first` or `second` is _ABSENT if an exchange lacks the value."""
    values = (first, second)
    below = any(value for value in values if value is not _ABSENT)
    known: Sequence[Mapping[str, Any]]
    if below and all(value is _ABSENT or isinstance(value, Mapping) for value in values):
        known = [value if isinstance(value, Mapping) else {} for value in values]
        shown = f"{path}." if path else ""
        closing = ""
    elif below and all(value is _ABSENT or isinstance(value, list) for value in values):
        known = _named(*(value if isinstance(value, list) else [] for value in values))
        shown, closing = f"{path}[", "]"
    else:
        yield Pair(path, _text(first), _text(second))
        return
    for name in dict.fromkeys(name for one in known for name in one):
        yield from _pairs(f"{shown}{name}{closing}", *(one.get(name, _ABSENT) for one in known))


def _named(*lists: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Two lists as mappings, by the first field of NAMES that identifies each element in its list, else by position."""
    for field in NAMES:
        found = [{_name(one, field): one for one in each} for each in lists]
        if all(None not in named and len(named) == len(each) for named, each in zip(found, lists, strict=True)):
            return [{str(name): one for name, one in named.items()} for named in found]
    return [{str(number): one for number, one in enumerate(each)} for each in lists]


def _name(element: Any, field: str) -> str | None:
    """The value of `field` if it can identify an element of a list: a text or an integer; else None."""
    value = element.get(field) if isinstance(element, Mapping) else None
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else None


def _text(value: Any) -> str | None:
    if value is _ABSENT:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
