"""How bodies become text: what is opened, what is withheld, and what is known from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.records.codecs import DEFAULT_LIMIT
from kproxy.decoders.records.record import Header


class Payloads(Protocol):
    """Reads keys, values and header values of records."""

    def show(self, topic: str | None, part: str, data: bytes, headers: Sequence[Header]) -> Any:
        """The JSON form of a payload: text, or {"base64", "format", …, "decoded"} as the exchange JSON has it.

        `topic` is None where it is unknown; `part` is "key", "value" or "header". Never raises on any bytes.
        """


@dataclass(frozen=True, slots=True)
class View:
    """`batch_limit` is how many bytes a record batch may come to when it is decompressed, else it is not opened.

    Without `open_batches` record batches have no records. Without `payloads` a record's key and value are text or
    base64. Without `inside` the other bytes are base64 alone. With `text` the records of a batch may be a RecordsText
    (decoders.records.form), for who makes text of them at once.
    """

    show_secrets: bool = False
    open_batches: bool = True
    batch_limit: int = DEFAULT_LIMIT
    knowledge: Knowledge = field(default_factory=Knowledge)
    payloads: Payloads | None = None
    inside: bool = True
    text: bool = False


PLAIN = View(knowledge=Knowledge(most=0))
"""Secrets withheld, batches opened, nothing known from elsewhere, nor learnt."""
