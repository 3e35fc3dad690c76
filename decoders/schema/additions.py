"""Definitions in users' files besides Kafka's: messages with further API keys, and dialects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kproxy.decoders.schema.dialect import Dialect
from kproxy.decoders.schema.model import Field, Message


@dataclass(frozen=True, slots=True)
class Additions:
    messages: tuple[Message, ...] = ()
    dialects: Mapping[str, Dialect] = field(default_factory=dict)

    @property
    def bodies(self) -> Iterator[tuple[str, Sequence[Field]]]:
        """("request" or "response", fields) of each message; for a dialect, all fields, whatever their conditions."""
        for message in self.messages:
            yield message.kind, message.fields
        for one in self.dialects.values():
            for request in one.requests.values():
                for body in (request.request, request.response):
                    if body is not None:
                        yield body.kind, [found for found, _ in body.fields]

    @property
    def names(self) -> dict[str, frozenset[int]]:
        """API keys and request types of dialects by name.

        A request type also has a name with its dialect's name in front: "coordinator-draft-1.Ping".
        """
        found: dict[str, frozenset[int]] = {}
        for message in self.messages:
            if message.kind == "request" and message.api_key is not None:
                found[message.name.removesuffix("Request")] = frozenset((message.api_key,))
        for one in self.dialects.values():
            for request in one.requests.values():
                for name in request.names:
                    found[f"{one.name}.{name}"] = keys = frozenset((request.type,))
                    found[name] = found.get(name, frozenset()) | keys
        return found
