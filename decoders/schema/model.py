"""The types of which a Kafka message definition consists, as data.

A definition says for each field its type and the versions in which it is present, nullable, tagged and flexible.
Source: the message definition files of Apache Kafka (`common/message/*.json` in the kafka-clients jar).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NO_VERSION = 32767
"""The value of `low` in a range that holds no version."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included; it is empty if `low > high`. "2+" has `high` 32767."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __bool__(self) -> bool:
        return self.low <= self.high

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse "none", "3", "3+" or "3-5". Raises ValueError for any other text."""
        if text == "none":
            return NEVER
        if text.endswith("+"):
            return cls(int(text[:-1]), NO_VERSION)
        low, dash, high = text.partition("-")
        return cls(int(low), int(high) if dash else int(low))

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.high == NO_VERSION:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


NEVER = Versions(NO_VERSION, -1)
ALWAYS = Versions(0, NO_VERSION)

Kind = Literal["request", "response", "header", "data", "coordinator-key", "coordinator-value", "metadata"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct.

    `type` is the element type without the array mark: a primitive (bool, int8, int16, uint16, int32, uint32, int64,
    float64, uuid, string, bytes, records) or the name of a struct, whose definition is then `struct`.
    `name` is spelt as Kafka's JSON converters spell it (lower camel case).
    """

    name: str
    type: str
    array: bool = False
    versions: Versions = ALWAYS
    nullable: Versions = NEVER
    tagged: Versions = NEVER
    tag: int | None = None
    flexible: Versions | None = None
    """The flexible versions of this field, where they differ from the message's (RequestHeader.clientId); else None."""
    default: str | bool | int | None = None
    """The default value as the definition writes it (null is the string "null"); None if there is none."""
    map_key: bool = False
    entity: str | None = None
    ignorable: bool = False
    struct: Struct | None = None
    count: Literal["int16", "int32"] = "int32"
    """The type of an array's count if the array is not compact; always int32 in Kafka's definitions."""
    names: tuple[tuple[str | int, str], ...] = ()
    """(value, name) for values that have names; empty in Kafka's definitions."""


@dataclass(frozen=True, slots=True)
class Struct:
    """A named list of fields; the struct exists in `versions`."""

    name: str
    versions: Versions
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """The definition of a message in one release.

    `versions` are the versions that this definition is used for, `flexible` those with compact lengths and tagged
    fields (KIP-482). `release` is the Kafka release that the definition comes from ("4.4.0").
    """

    name: str
    kind: Kind
    api_key: int | None
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]
    release: str
    listeners: tuple[str, ...] = ()
    unstable: Versions = NEVER
    """The versions that the release serves only with `unstable.api.versions.enable`."""
    topic: str | None = None
    """The internal topic whose records have this message as key or value; None for any other message."""
    record_type: int | None = None
    """For keys and values of records: the record type's number in that topic; Kafka's definition calls it `apiKey`."""

    def __hash__(self) -> int:
        # Decoders are cached by message; hashing all fields at each look-up would cost more than decoding.
        return hash((self.name, self.versions.low, self.release))
