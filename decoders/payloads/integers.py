"""A viewer for integers as Kafka's ShortSerializer, IntegerSerializer and LongSerializer write them."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.payloads.schemas import Schemas
from kproxy.decoders.payloads.viewer import Content, Payload, ViewError
from kproxy.decoders.plurals import are, counted

SIZES: Final = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


class IntegerViewer:
    name = "integer"
    title = "integer (big-endian, signed)"
    priority = 100
    plain = False

    def guess(self, payload: Payload, schemas: Schemas) -> str | None:
        del schemas
        size = len(payload.data)
        return f"{counted(size, 'byte')}, an {SIZES[size]}" if size in {4, 8} and payload.part != "header" else None

    def show(self, payload: Payload, schemas: Schemas) -> Content:
        del schemas
        if len(payload.data) not in SIZES:
            raise ViewError(
                f"{counted(len(payload.data), 'byte')} {are(len(payload.data))} not an integer of 1, 2, 4 or 8"
            )
        return Content(int.from_bytes(payload.data, "big", signed=True))
