"""A batch as the nodes of its records see it: labels of records, keys and values."""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from typing import Final

from kproxy.decoders import secrets
from kproxy.decoders.batches.record import NO_HEADERS, Header
from kproxy.decoders.records import internal
from kproxy.decoders.records.field_nodes import moment
from kproxy.decoders.records.internal_nodes import add_internal
from kproxy.decoders.records.partition import PartitionRecords
from kproxy.decoders.records.places import Place
from kproxy.decoders.tree import Node
from kproxy.decoders.view import View

MOST: Final = 10_000
"""Maximum number of records of a batch, or of messages of a set, that get nodes."""

PREVIEW: Final = 80
"""Maximum number of bytes of a key or value that a label shows as text."""

SHOWN: Final = 1_000
"""Maximum number of characters of a viewer's output that a label shows."""

_decoder: Final = codecs.getincrementaldecoder("utf-8")


class BatchContext:
    """A batch with its context. Positions in the batch count from the frame offset `at`.

    `before` is the number of records in the batches before it, None if unknown.
    """

    def __init__(self, found: PartitionRecords, index: int, at: int, before: int | None, view: View) -> None:
        self.found = found
        self.index = index
        self.at = at
        self.before = before
        self.view = view
        self.secret = withholds(found.place, view)
        self.batch = found.batches[index]

    def label(self, offset: int, timestamp: int | None, number: int) -> str:
        """Label of a record: its offset, the offset that the broker assigned, its timestamp, and why a client skips it.

        `number` is the record's index in the batch.
        """
        words = [f"offset {offset}"]
        assigned = None if self.before is None else self.found.assigned(self.before + number)
        if assigned is not None:
            words = [f"{offset} → {assigned}"]
        if timestamp is not None:
            words.append(moment(timestamp))
        words.append(self.found.skipped(self.index, offset) or "")
        return "  ".join(filter(None, words))

    def describe(self, key: Node, value: Node, headers: Sequence[Header] = NO_HEADERS) -> None:
        """Set labels on the key and value of a record, or decode them for an internal topic.

        Not for control records.
        """
        topic = self.found.place.topic
        if topic in internal.TOPICS:
            add_internal(topic, key, value, self.view)
        else:
            key.label, value.label = self.payload("key", key, headers), self.payload("value", value, headers)

    def payload(self, part: str, node: Node, headers: Sequence[Header] = NO_HEADERS) -> str | None:
        """Label of a key, value or header value: the output of the chosen viewer, else the beginning of its text."""
        payloads = self.view.payloads
        if node.value is None or payloads is None:
            return _preview(node)
        shown = payloads.show(self.found.place.topic, part, bytes(node.value), headers)
        if not isinstance(shown, dict) or "format" not in shown:
            return _preview(node)
        if "decoded" not in shown:
            return str(shown["error"])
        text = json.dumps(shown["decoded"], ensure_ascii=False)
        return f"{shown['format']}: {text[:SHOWN]}{'…' if len(text) > SHOWN else ''}"


def withholds(place: Place, view: View) -> bool:
    """Whether undecoded bytes of a records field are withheld because they may hold a secret."""
    return place.topic in secrets.TOPICS and not view.show_secrets


def _preview(node: Node) -> str | None:
    """The beginning of bytes as text in quotes; None if they are not printable UTF-8."""
    if not node.value:
        return None
    try:
        begin = _decoder().decode(bytes(node.value[:PREVIEW]))
    except UnicodeDecodeError:
        return None
    if not begin.isprintable():
        return None
    return f'"{begin}"' if len(node.value) <= PREVIEW else f'"{begin}…'
