"""Makes the rows of the table records from the JSON objects of the form "kproxy.record/1"."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

from kproxy.captures.export.records import RecordLines
from kproxy.captures.keys import Key
from kproxy.captures.tables.rows import Row
from kproxy.decoders.exchange import Exchange


def record_rows(key: Key, exchange: Exchange, lines: RecordLines) -> Iterator[Row]:
    """The rows of an exchange's records; keys and values that `lines` withholds are null."""
    for line in lines.records(exchange):
        withheld = _withheld(line["key"]) or _withheld(line["value"])
        headers = [(header["key"], payload(header["value"])) for header in line["headers"]]
        yield (
            key.time, line["topic"], line.get("topicId"), line["partition"], line["offset"],
            line.get("assignedOffset"), line["timestamp"], payload(line["key"]), payload(line["value"]), headers,
            withheld, line.get("skipped"), *key.ids,
        )  # fmt: skip


def payload(shown: Any) -> bytes | None:
    """The bytes of a key or value in a record's JSON, where it is text or base64; None if it is null or withheld."""
    if isinstance(shown, str):
        return shown.encode("utf-8", "surrogatepass")
    if isinstance(shown, Mapping) and isinstance(shown.get("base64"), str):
        return b64decode(shown["base64"])
    return None


def _withheld(shown: Any) -> bool:
    return shown is not None and payload(shown) is None
