"""Record batches with a wrong CRC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kproxy.decoders.schema.layout import Layout

_CRC_AT: Final = {0: 12, 1: 12, 2: 17}
"""Offset of the CRC in the first batch, by its magic."""
_MAGIC_AT: Final = 16
_CRC_SIZE: Final = 4


def broken_crcs(layout: Layout, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """The values of a body with a wrong CRC in the first batch of each field of records; None if there is no batch."""
    new: dict[str, Any] = {}
    for slot in layout.every():
        value = values.get(slot.name)
        if slot.one.type == "records" and value is not None:
            found = _broken(bytes(value))
            if found is not None:
                new[slot.name] = found
        elif slot.layout is not None and isinstance(value, list):
            inner = [broken_crcs(slot.layout, one) for one in value]
            if any(one is not None for one in inner):
                new[slot.name] = [old if one is None else one for old, one in zip(value, inner, strict=True)]
    return {**values, **new} if new else None


def _broken(records: bytes) -> bytes | None:
    at = _CRC_AT.get(records[_MAGIC_AT]) if len(records) > _MAGIC_AT else None
    if at is None or len(records) < at + _CRC_SIZE:
        return None
    return records[:at] + bytes(0xFF ^ byte for byte in records[at : at + _CRC_SIZE]) + records[at + _CRC_SIZE :]
