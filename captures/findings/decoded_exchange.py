"""The decoded bodies of an exchange, as input of the modules NAME_facts.py, and the row type of their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kproxy.captures.findings.facts import At, Fact
from kproxy.captures.findings.metadata_log import MetadataLog
from kproxy.captures.findings.produced import Part
from kproxy.captures.index.labels import topic_name
from kproxy.decoders.exchange import one_string
from kproxy.decoders.knowledge import Knowledge

Values: TypeAlias = Mapping[str, Any]


class DecodedExchange(NamedTuple):
    """The decoded bodies of an exchange, {} for an unreadable one. `answered`: whether the response was readable."""

    at: At
    request: Values
    response: Values
    answered: bool
    knowledge: Knowledge
    errors: list[int]
    wanted: frozenset[type[Fact]]
    """The types of facts that some rule uses."""
    log: MetadataLog
    idle: bool = False
    """Whether no analyzer currently uses error-free PartitionIO facts of Produce."""
    size: int = 0
    """Size in bytes of the response's frame, length field included."""
    sound: bool = True
    """Whether both frames are complete and were decoded in the layout of their version."""
    parts: Sequence[Part] = ()
    """The partitions of a Produce; empty for other APIs."""

    @property
    def error(self) -> int:
        """The response's top-level error code, 0 for none; for an unreadable response, the first code in `errors`."""
        code = self.response.get("errorCode")
        return code if isinstance(code, int) else 0 if self.answered else self.errors[0] if self.errors else 0

    def topic(self, element: Values) -> str:
        return one_string(topic_name(element, self.knowledge))


class Reading(NamedTuple):
    makes: frozenset[type[Fact]]
    read: Callable[[DecodedExchange], Iterable[Fact]]


def known(value: Any) -> int | None:
    """The number, or None if it is negative or no number: Kafka uses negative numbers for unknown values."""
    return value if isinstance(value, int) and value >= 0 else None


def listed(values: Values, name: str) -> list[Any]:
    """The list in the field `name`; [] if the field is null or missing."""
    found = values.get(name)
    return found if isinstance(found, list) else []
