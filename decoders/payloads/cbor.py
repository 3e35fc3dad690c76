"""A viewer for CBOR (RFC 8949)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kproxy.decoders.payloads.jsonvalue import DEPTH
from kproxy.decoders.payloads.schemas import Schemas
from kproxy.decoders.payloads.viewer import Content, Payload, ViewError
from kproxy.decoders.plurals import counted

SELF_DESCRIBED: Final = b"\xd9\xd9\xf7"
"""The tag that marks data as CBOR and has no other meaning."""

AS_TAGS: Final = (4, 5, 25, 28, 29, 30, 35, 36, 256, 258, 260, 261, 43000)
"""Numbers of tags that are shown with their value instead of being interpreted.

Interpreting them is dangerous: shared values can refer to themselves or multiply, a bigfloat takes as many digits as it
claims, a regular expression would be compiled.
"""


class CborViewer:
    name = "cbor"
    title = "CBOR"
    priority = 300
    plain = False

    def guess(self, payload: Payload, schemas: Schemas) -> str | None:
        """Accepts only payloads with CBOR's own tag and maps with string keys: almost any bytes begin with some CBOR
        value.
        """
        del schemas
        data = payload.data
        described = data.startswith(SELF_DESCRIBED)
        if not described and (not data or not (0xA1 <= data[0] <= 0xBB or data[0] == 0xBF)):
            return None
        try:
            value = parse(data)
        except ViewError:
            return None
        if described:
            return "CBOR's own tag"
        named = isinstance(value, dict) and bool(value) and all(isinstance(key, str) for key in value)
        return "a CBOR map that ends with the last byte" if named else None

    def show(self, payload: Payload, schemas: Schemas) -> Content:
        del schemas
        return Content(parse(payload.data))


def parse(data: bytes) -> Any:
    """The value of CBOR data. Raises ViewError."""
    import io

    import cbor2

    stream = io.BytesIO(data)
    try:
        decoder = cbor2.CBORDecoder(
            stream,
            tag_hook=lambda tag, immutable: _tagged(tag.tag, tag.value, immutable=immutable),
            semantic_decoders={number: partial(_as_tag, number) for number in AS_TAGS},
            max_depth=DEPTH,
        )
        value = decoder.decode()
    except Exception as error:  # noqa: BLE001 (each tag's value raises errors of its own)
        raise ViewError(str(error) or type(error).__name__) from None
    rest = len(data) - stream.tell()
    if rest:
        raise ViewError(f"{counted(rest, 'byte')} after the value")
    return value


def _as_tag(number: int, value: Any, immutable: bool) -> Mapping[str, Any]:
    return _tagged(number, value, immutable=immutable)


def _tagged(number: int, value: Any, *, immutable: bool) -> Mapping[str, Any]:
    import cbor2

    shown = {"tag": number, "value": value}
    return cbor2.frozendict(shown) if immutable else shown
