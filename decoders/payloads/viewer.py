"""The door for viewers: what one is given, what it gives back, and how it says that it cannot.

A viewer comes in as an entry point of the group `kproxy.viewers`: a class without arguments, or an object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kproxy.decoders.payloads.schemas import Schema, Schemas
from kproxy.decoders.records.record import NO_HEADERS, Header

GROUP: Final = "kproxy.viewers"


@dataclass(frozen=True, slots=True)
class Payload:
    """`topic` is None where it is unknown; `part` is "key", "value" or "header"; `headers` are the record's."""

    topic: str | None
    part: str
    data: bytes
    headers: Sequence[Header] = NO_HEADERS


@dataclass(frozen=True, slots=True)
class Content:
    """What a payload says. `value` may hold bytes, decimals, dates and the like: the chooser turns them into JSON.

    `complaint` is what is wrong with it all the same, such as the rule of a JSON Schema that it breaks.
    """

    value: Any
    schema: Schema | None = None
    complaint: str | None = None


class ViewError(Exception):
    """A payload that the viewer cannot show; the message says why, without the viewer's name."""


class Viewer(Protocol):
    """Reads one format.

    `name` is what the user chooses it by. Of the viewers whose `guess` is not None the one with the highest `priority`
    shows a payload for which none was chosen. `plain`: what it shows is what the JSON has without viewers, text or
    base64.
    """

    name: str
    title: str
    priority: int
    plain: bool

    def guess(self, payload: Payload, schemas: Schemas) -> str | None:
        """Why this payload is of the viewer's format ("schema id 12, registry"); None where it does not look so."""

    def show(self, payload: Payload, schemas: Schemas) -> Content:
        """Raises ViewError where the payload is not of the format."""
