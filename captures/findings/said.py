"""The bodies of an exchange as functions that make facts read them, and how these functions are listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kproxy.captures.findings.facts import At, Fact
from kproxy.captures.findings.metadata_log import MetadataLog
from kproxy.captures.findings.produced import Part
from kproxy.captures.index.labels import topic_name
from kproxy.decoders.knowledge import Knowledge

Values: TypeAlias = Mapping[str, Any]


class Said(NamedTuple):
    """The bodies of an exchange, {} for an unreadable one. `answered`: whether the response could be read."""

    at: At
    request: Values
    response: Values
    answered: bool
    knowledge: Knowledge
    errors: list[int]
    wanted: frozenset[type[Fact]]
    """The kinds of facts that some rule wants."""
    log: MetadataLog
    idle: bool = False
    """Whether no analyzer currently takes PartitionIO facts about a Produce without error."""
    size: int = 0
    """Size in bytes of the response's frame, length field included."""
    sound: bool = True
    """Whether both frames are complete and were decoded in the layout of their version."""
    parts: Sequence[Part] = ()
    """The partitions of a Produce."""

    @property
    def error(self) -> int:
        """The response's top-level error."""
        code = self.response.get("errorCode")
        return code if isinstance(code, int) else 0 if self.answered else self.errors[0] if self.errors else 0

    def topic(self, element: Values) -> str:
        return topic_name(element, self.knowledge)


class Reading(NamedTuple):
    makes: frozenset[type[Fact]]
    read: Callable[[Said], Iterable[Fact]]


def known(value: Any) -> int | None:
    """A number, or None if it is negative: Kafka uses negative numbers for unknown values."""
    return value if isinstance(value, int) and value >= 0 else None


def listed(values: Values, name: str) -> list[Any]:
    """The elements of a list; [] if it is null or missing."""
    found = values.get(name)
    return found if isinstance(found, list) else []
