"""A viewer for text in UTF-8."""

from __future__ import annotations

from kproxy.decoders.batches.compiled import text_or_base64
from kproxy.decoders.payloads.schemas import Schemas
from kproxy.decoders.payloads.viewer import Content, Payload, ViewError


class TextViewer:
    name = "text"
    title = "text (UTF-8)"
    priority = 500
    plain = True

    def guess(self, payload: Payload, schemas: Schemas) -> str | None:
        del schemas
        return "UTF-8 without control characters" if isinstance(text_or_base64(payload.data), str) else None

    def show(self, payload: Payload, schemas: Schemas) -> Content:
        del schemas
        try:
            return Content(payload.data.decode())
        except UnicodeDecodeError as error:
            raise ViewError(f"not UTF-8 at byte {error.start}") from None
