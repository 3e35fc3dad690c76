"""Options for showing bodies: what is decoded, what is withheld, and knowledge from other messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kproxy.decoders.batches.codecs import DEFAULT_LIMIT
from kproxy.decoders.batches.record import Header
from kproxy.decoders.knowledge import Knowledge


class Payloads(Protocol):
    """Shows the keys, values and header values of records."""

    def show(self, topic: str | None, part: str, data: bytes, headers: Sequence[Header]) -> Any:
        """A payload in the form of the exchange JSON: text, or {"base64", "format", …, "decoded"}.

        `topic` is None if unknown; `part` is "key", "value" or "header". Never raises, whatever the bytes.
        """


@dataclass(frozen=True, slots=True)
class View:
    """Options for showing bodies.

    `batch_limit` is the maximum size in bytes to which a record batch is decompressed; larger ones stay closed. Without
    `open_batches` record batches have no records. Without `payloads` a record's key and value are text or base64.
    Without `inside` other bytes fields are base64 only. With `text` the records of a batch may be a RecordsText
    (decoders.records.form), for callers that write them as text at once. `findings` holds, by exchange number, the
    findings for which the exchange is evidence, in the form of the exchange JSON.
    """

    show_secrets: bool = False
    open_batches: bool = True
    batch_limit: int = DEFAULT_LIMIT
    knowledge: Knowledge = field(default_factory=Knowledge)
    payloads: Payloads | None = None
    inside: bool = True
    text: bool = False
    findings: Mapping[int, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


PLAIN = View(knowledge=Knowledge(most=0))
"""Options that withhold secrets, open batches, and use no knowledge from other messages."""
