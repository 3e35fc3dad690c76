"""A viewer that shows bytes in base 16, for payloads that no other viewer recognises."""

from __future__ import annotations

from kproxy.decoders.payloads.schemas import Schemas
from kproxy.decoders.payloads.viewer import Content, Payload


class HexViewer:
    name = "hex"
    title = "bytes in base 16"
    priority = 0
    plain = True

    def guess(self, payload: Payload, schemas: Schemas) -> str | None:
        del payload, schemas
        return "no other viewer fits"

    def show(self, payload: Payload, schemas: Schemas) -> Content:
        del schemas
        return Content(payload.data.hex())
