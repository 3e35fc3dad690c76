"""The JSON form of records of magic 2; setup.py compiles this file, with the C types of shown.pxd, to `_shown`."""

from __future__ import annotations

import re
from binascii import b2a_base64
from typing import Any, Final

from kproxy.decoders.batches.record import Record
from kproxy.decoders.primitives import text_as_java

_CONTROL: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]").search
_PLAIN: Final = bytes([*b"\t\r\n", *range(0x20, 0x7F)])
_LONG: Final = 64
"""Minimum length in bytes of text that is checked by deleting all plain bytes, which is the fastest way for long text.
"""


def text_or_base64(data: bytes | None) -> str | dict[str, str] | None:
    """The bytes as text if they are UTF-8 without control characters other than tab, CR and LF, else as base64."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return in_base64(data)
    if len(data) >= _LONG and not data.translate(None, _PLAIN):
        return text
    if text.isprintable() or not _CONTROL(text):
        return text
    return in_base64(data)


def in_base64(data: bytes) -> dict[str, str]:
    return {"base64": b2a_base64(data, newline=False).decode("ascii")}


def record_forms(records: list[Record]) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    """The JSON forms of records, and (record index, header index) for each header key that is not UTF-8."""
    forms: list[dict[str, Any]] = []
    bad: list[tuple[int, int]] = []
    last = b""
    text = ""
    for record in records:
        offset, timestamp, key, value, headers = record
        shown: list[dict[str, Any]] = []
        for name, content in headers:
            # Consecutive records mostly have the same object as header name, because decoders.batches.loop reuses it.
            if name is not last:
                last = name
                try:
                    text = name.decode()
                except UnicodeDecodeError:
                    text = text_as_java(name)
                    bad.append((len(forms), len(shown)))
                    last = b""
            shown.append({"key": text, "value": text_or_base64(content)})
        forms.append(
            {
                "offset": offset,
                "timestamp": timestamp,
                "key": text_or_base64(key),
                "value": text_or_base64(value),
                "headers": shown,
            }
        )
    return forms, bad
