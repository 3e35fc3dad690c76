"""A viewer for MessagePack."""

from __future__ import annotations

from typing import Any, Final

from kproxy.decoders.payloads.schemas import Schemas
from kproxy.decoders.payloads.viewer import Content, Payload, ViewError
from kproxy.decoders.plurals import counted

MOST_ITEMS: Final = 1 << 16
"""Maximum number of items in an array or map: the library reserves memory for them before it reads them."""


class MessagePackViewer:
    name = "msgpack"
    title = "MessagePack"
    priority = 400
    plain = False

    def guess(self, payload: Payload, schemas: Schemas) -> str | None:
        """Accepts only maps with text keys, because almost any bytes begin with some other value."""
        del schemas
        if not payload.data or not (0x81 <= payload.data[0] <= 0x8F or payload.data[0] in {0xDE, 0xDF}):
            return None
        try:
            value = parse(payload.data)
        except ViewError:
            return None
        named = isinstance(value, dict) and all(isinstance(key, str) for key in value)
        return "a MessagePack map that ends with the last byte" if named else None

    def show(self, payload: Payload, schemas: Schemas) -> Content:
        del schemas
        return Content(parse(payload.data))


def parse(data: bytes) -> Any:
    """The value of MessagePack data. Raises ViewError."""
    import msgpack

    try:
        return msgpack.unpackb(
            data,
            raw=False,
            timestamp=3,
            strict_map_key=False,
            ext_hook=_extension,
            max_array_len=min(len(data), MOST_ITEMS),
            max_map_len=min(len(data), MOST_ITEMS),
        )
    except msgpack.ExtraData as extra:
        raise ViewError(f"{counted(len(extra.extra), 'byte')} after the value") from None
    except msgpack.StackError:
        raise ViewError("nested too deep") from None
    except msgpack.FormatError:
        raise ViewError("a byte that begins no value") from None
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ViewError(str(error) or type(error).__name__) from None


def _extension(code: int, data: bytes) -> dict[str, Any]:
    return {"type": code, "data": data}
