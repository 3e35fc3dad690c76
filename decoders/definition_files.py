"""Reads the definition files that users write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kproxy.decoders import schema
from kproxy.decoders.dialects.reading import DIALECT, dialect
from kproxy.decoders.schema import kafkajson
from kproxy.decoders.schema.additions import Additions
from kproxy.decoders.schema.dialect import Dialect
from kproxy.decoders.schema.jsontext import DefinitionError, Element, parse
from kproxy.decoders.schema.model import Message
from kproxy.decoders.schema.names import folded

LARGEST: Final = 8 << 20
"""Maximum size in bytes of a file; Kafka's largest definition has some 20 KB."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A message definition, the name of its file, and the JSON element in the file that defines it."""

    message: Message
    file: str
    element: Element

    def error(self, text: str, member: str = "name") -> DefinitionError:
        return DefinitionError(text, self.element.value[member].line, self.file)


def read(texts: Iterable[tuple[str, str]]) -> Additions:
    """Reads files, given as (name, text): each holds a message definition in Kafka's form, or a dialect.

    Raises DefinitionError with file and line for an error in a file, for a name or an API key that Kafka or another
    file uses already, and for a request that has no response or whose response has other versions.
    """
    messages: list[_Read] = []
    dialects: dict[str, Dialect] = {}
    for file, text in texts:
        try:
            element = parse(text)
            if not isinstance(element.value, dict) or DIALECT not in element.value:
                messages.append(_Read(kafkajson.message(element), file, element))
                continue
            found = dialect(element)
            if found.name in dialects:
                raise element.value[DIALECT].error(f"the dialect {found.name} is defined twice")
            _check_dialect(found, element, dialects)
        except DefinitionError as error:
            raise DefinitionError(error.message, error.line, file) from None
        dialects[found.name] = found
    _check_messages(messages)
    return Additions(tuple(one.message for one in messages), dialects)


def _check_messages(messages: list[_Read]) -> None:
    known = schema.definitions()
    theirs = {folded(message.name) for message in known.messages()}
    names: dict[str, str] = {}
    by_key: dict[tuple[int, str], _Read] = {}
    for one in messages:
        name = one.message.name
        if folded(name) in theirs:
            raise one.error(f"{name} is the name of a message of Kafka: choose another")
        if folded(name) in names:
            raise one.error(f"{name} is already defined in {names[folded(name)]}")
        names[folded(name)] = one.file
        key = one.message.api_key
        if key is None:
            continue
        api = known.api(key)
        if api is not None:
            raise one.error(f"API key {key} belongs to Kafka's {api.name}: choose another", "apiKey")
        other = by_key.setdefault((key, one.message.kind), one)
        if other is not one:
            raise one.error(f"API key {key} is already used by {other.message.name} ({other.file})", "apiKey")
    for (key, kind), one in by_key.items():
        answer = "response" if kind == "request" else "request"
        other_side = by_key.get((key, answer))
        if other_side is None:
            raise one.error(f"{one.message.name} has no {answer}: no file defines one with API key {key}", "apiKey")
        if other_side.message.versions != one.message.versions:
            text = f"{one.message.name} has versions {one.message.versions}"
            text += f", but its {answer} {other_side.message.versions}"
            raise one.error(text, "validVersions")


def _check_dialect(found: Dialect, element: Element, others: Mapping[str, Dialect]) -> None:
    """Raises DefinitionError if another dialect, or Kafka, claims the same port or request type as `found`."""
    for other in others.values():
        if found.port is not None and found.port == other.port:
            raise element.value["port"].error(f"port {found.port} is already used by the dialect {other.name}")
        both = found.among_kafka.keys() & other.among_kafka.keys()
        if both:
            raise element.value["requests"].error(
                f"request type {min(both)} (amongKafka) is already used by the dialect {other.name}"
            )
