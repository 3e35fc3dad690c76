"""The interface of viewers: their input, their output, and their exception.

A viewer is registered as an entry point of the group `kproxy.viewers`: a class without arguments, or an object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kproxy.decoders.batches.record import NO_HEADERS, Header
from kproxy.decoders.payloads.schemas import Schema, Schemas

GROUP: Final = "kproxy.viewers"


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes to show.

    `topic` is None if unknown; `part` is "key", "value" or "header"; `headers` are those of the record.
    """

    topic: str | None
    part: str
    data: bytes
    headers: Sequence[Header] = NO_HEADERS


@dataclass(frozen=True, slots=True)
class Content:
    """A decoded payload. `value` may contain bytes, decimals, dates and so on; the chooser converts them to JSON.

    `complaint` is a fault that did not prevent decoding, such as a violated rule of a JSON Schema.
    """

    value: Any
    schema: Schema | None = None
    complaint: str | None = None


class ViewError(Exception):
    """The viewer cannot show a payload; the message says why, without the viewer's name."""


class Viewer(Protocol):
    """A viewer: decodes payloads of one format.

    The user chooses a viewer by `name`. If none was chosen for a payload, the one with the highest `priority` whose
    `guess` is not None shows it. `plain` says that the output is the same as the JSON without viewers (text or base64).
    """

    name: str
    title: str
    priority: int
    plain: bool

    def guess(self, payload: Payload, schemas: Schemas) -> str | None:
        """Why the payload seems to have the viewer's format ("schema id 12, registry"); None if it does not."""

    def show(self, payload: Payload, schemas: Schemas) -> Content:
        """Decode the payload. Raises ViewError if it does not have the viewer's format."""
