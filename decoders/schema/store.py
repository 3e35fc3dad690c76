"""Reads kproxy's data files once; the line of a message definition is parsed on first use."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

from kproxy.decoders.schema.model import Message, Versions
from kproxy.decoders.schema.reading import message

_FIELDS: Final = b',"fields":'


class Definition:
    """A line of a data file with message definitions: its head is parsed at once, its fields on first use.

    `because` is the reason why an older release's definition is kept beside the newest one: "gone" (the newest does not
    have these versions), "layout" (the layout or field names differ) or "name" (only the message's name differs). It is
    None for a definition of the newest release.
    """

    __slots__ = (
        "_line",
        "_message",
        "api_key",
        "because",
        "kind",
        "name",
        "record_type",
        "release",
        "topic",
        "versions",
    )

    def __init__(
        self,
        name: str,
        kind: str,
        api_key: int | None,
        release: str,
        versions: Versions,
        *,
        topic: str | None = None,
        record_type: int | None = None,
        because: str | None = None,
        line: bytes = b"",
        message: Message | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.api_key = api_key
        self.topic = topic
        self.record_type = record_type
        self.release = release
        self.versions = versions
        self.because = because
        self._line = line
        self._message = message

    @classmethod
    def of_line(cls, line: bytes) -> Definition:
        head = json.loads(line[: line.index(_FIELDS)] + b"}")
        versions = Versions.parse(head["versions"])
        return cls(
            head["name"], head["kind"], head.get("key"), head["release"], versions,
            topic=head.get("topic"), record_type=head.get("record"), because=head.get("because"), line=line,
        )  # fmt: skip

    @classmethod
    def given(cls, message: Message) -> Definition:
        """The definition of a message in a user's file, which takes precedence over Kafka's."""
        return cls(message.name, message.kind, message.api_key, message.release, message.versions, message=message)

    @property
    def message(self) -> Message:
        if self._message is None:
            self._message = message(self._line)
        return self._message


def read(name: str) -> bytes:
    return (files("kproxy.decoders.schema") / "data" / name).read_bytes()


@cache
def releases() -> tuple[str, ...]:
    """The releases whose definitions are in the data files, newest first."""
    return tuple(json.loads(read("releases.json")))


@cache
def definitions() -> dict[str, tuple[Definition, ...]]:
    """All definitions, by release."""
    return {
        release: tuple(
            Definition.of_line(line)
            for part in ("messages", "internal")
            for line in read(f"{part}-{release}.jsonl").splitlines()
        )
        for release in releases()
    }


@cache
def apis() -> tuple[dict[str, Any], ...]:
    return tuple(map(json.loads, read("apis.jsonl").splitlines()))


@cache
def errors() -> tuple[dict[str, Any], ...]:
    return tuple(map(json.loads, read("errors.jsonl").splitlines()))
