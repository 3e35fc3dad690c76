"""Decodes Avro with a schema.

fastavro checks the schema. The values are decoded here, with limits, because a payload may claim any depth and any
number of items that take no bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from kproxy.decoders.extras import installing
from kproxy.decoders.payloads.jsonvalue import DEPTH
from kproxy.decoders.payloads.reading import CompilingViewer, Reading
from kproxy.decoders.payloads.schemas import Part, Schema, SchemaType
from kproxy.decoders.payloads.viewer import Content, ViewError
from kproxy.decoders.plurals import counted

LEAST_VALUES: Final = 10_000
VALUES_A_BYTE: Final = 16
"""A payload may have LEAST_VALUES values plus this number per byte; nulls, which take no bytes, need a limit."""

Read = Callable[["Cursor"], Any]


class Cursor:
    """A payload while it is decoded: the position, the depth of nesting, and how many more values are allowed."""

    __slots__ = ("at", "data", "depth", "left")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.depth = 0
        self.left = LEAST_VALUES + VALUES_A_BYTE * len(data)

    def take(self, size: int) -> bytes:
        """The next `size` bytes. Raises ViewError if there are fewer."""
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise ViewError(f"{counted(size, 'byte')} expected at byte {self.at}, {len(self.data) - self.at} left")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def long(self) -> int:
        """The next zigzag varint. Raises ViewError if the bytes end within it or it is too long."""
        value = shift = 0
        data, at = self.data, self.at
        while True:
            if at >= len(data):
                raise ViewError(f"the bytes end within a number at byte {self.at}")
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise ViewError(f"a number of more than ten bytes at byte {self.at}")
        self.at = at
        return (value >> 1) ^ -(value & 1)

    def count(self, number: int = 1) -> None:
        """Count decoded values. Raises ViewError beyond the limit."""
        self.left -= number
        if self.left < 0:
            raise ViewError(f"more values than a payload of {counted(len(self.data), 'byte')} may have")

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEPTH:
            raise ViewError(f"nested more than {DEPTH} deep")


class AvroViewer(CompilingViewer[Read]):
    name = "avro"
    title = "Avro"
    type = SchemaType.AVRO

    def read(self, reading: Reading) -> Content:
        reader = self.compiled(reading.schema)
        cursor = Cursor(reading.body)
        value = reader(cursor)
        rest = len(cursor.data) - cursor.at
        if rest:
            raise ViewError(f"{counted(rest, 'byte')} after the value")
        return Content(value, reading.schema)

    def compile(self, schema: Schema) -> Read | ViewError:
        return reader_of(schema)


@lru_cache(maxsize=1000)
def reader_of(schema: Schema) -> Read | ViewError:
    """The function that decodes a value of the schema; if the schema is invalid, returns a ViewError."""
    try:
        names: dict[str, Any] = {}
        root = _parse(schema.parts, names)
        return _Readers(names).of(root)
    except ViewError as error:
        return error
    except ImportError:
        return ViewError(f"needs fastavro, which is not installed: {installing('schemas')}")
    except Exception as error:  # noqa: BLE001 (what fastavro says of a bad schema is of any type)
        return ViewError(f"a bad schema: {type(error).__name__}: {error}")


def _parse(parts: Sequence[Part], names: dict[str, Any]) -> Any:
    """Parse the parts of a schema; returns the last one, with full names in it.

    The types that the other parts define, in any order, are added to `names`.
    """
    from fastavro.schema import UnknownType, parse_schema

    texts = [_json(part.content) for part in parts]
    waiting, main = texts[:-1], texts[-1]
    while True:
        left = []
        for text in waiting:
            known = dict(names)
            try:
                parse_schema(text, known)
            except UnknownType:
                left.append(text)
            else:
                names.update(known)
        if not left or len(left) == len(waiting):
            return parse_schema(main, names)
        waiting = left


def _json(content: bytes) -> Any:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        text = content.decode("utf-8", "replace").strip()
        if text.isidentifier():
            return text
        raise ViewError(f"a bad schema: {error}") from None
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEPTH * 2:
            raise ViewError("a schema that nests too deep")
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return value


class _Readers:
    """Makes a decoding function for each type of a schema.

    A named type has only one function, so that types can recurse.
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._made: dict[str, Read] = {}

    def of(self, schema: Any) -> Read:
        """The decoding function for a parsed schema. Raises ViewError or KeyError if the schema is invalid."""
        if isinstance(schema, list):
            return _union([self.of(one) for one in schema])
        if isinstance(schema, str):
            plain = _PRIMITIVE.get(schema)
            return plain or self._named(schema)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.of(kind)
        if kind in {"record", "error", "enum", "fixed"}:
            return self._named(schema["name"])
        if kind == "array":
            return _array(self.of(schema["items"]))
        if kind == "map":
            return _map(self.of(schema["values"]))
        return _logical(schema, self.of(kind))

    def _named(self, name: str) -> Read:
        made = self._made.get(name)
        if made is not None:
            return made
        self._made[name] = lambda cursor: self._made[name](cursor)  # noqa: PLW0108 (it is another one by then)
        schema = self._names[name]
        kind = schema["type"]
        if kind == "enum":
            read = _enum(schema["symbols"])
        elif kind == "fixed":
            read = _logical(schema, _fixed(int(schema["size"])))
        else:
            read = _record([(field["name"], self.of(field["type"])) for field in schema["fields"]])
        self._made[name] = read
        return read


# --- types -----------------------------------------------------------------------------------------------------------


def _null(cursor: Cursor) -> None:
    cursor.count()


def _boolean(cursor: Cursor) -> bool:
    byte = cursor.take(1)[0]
    if byte > 1:
        raise ViewError(f"{byte} is not a boolean (byte {cursor.at - 1})")
    return byte == 1


def _long(cursor: Cursor) -> int:
    value = cursor.long()
    if not -(1 << 63) <= value < 1 << 63:
        raise ViewError(f"a number beyond 64 bits before byte {cursor.at}")
    return value


def _int(cursor: Cursor) -> int:
    value = cursor.long()
    if not -(1 << 31) <= value < 1 << 31:
        raise ViewError(f"an int beyond 32 bits before byte {cursor.at}")
    return value


def _float(cursor: Cursor) -> float:
    value: float = struct.unpack("<f", cursor.take(4))[0]
    return value


def _double(cursor: Cursor) -> float:
    value: float = struct.unpack("<d", cursor.take(8))[0]
    return value


def _bytes(cursor: Cursor) -> bytes:
    return cursor.take(cursor.long())


def _string(cursor: Cursor) -> str:
    data = cursor.take(cursor.long())
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ViewError(f"a string that is not UTF-8 before byte {cursor.at}") from None


def _union(branches: Sequence[Read]) -> Read:
    def read(cursor: Cursor) -> Any:
        at = cursor.at
        index = cursor.long()
        if not 0 <= index < len(branches):
            raise ViewError(f"no branch {index} in a union of {len(branches)} (byte {at})")
        return branches[index](cursor)

    return read


def _array(item: Read) -> Read:
    def read(cursor: Cursor) -> list[Any]:
        cursor.deeper()
        values: list[Any] = []
        while count := _block(cursor):
            values.extend(item(cursor) for _ in range(count))
        cursor.depth -= 1
        return values

    return read


def _map(value: Read) -> Read:
    def read(cursor: Cursor) -> dict[str, Any]:
        cursor.deeper()
        values: dict[str, Any] = {}
        while count := _block(cursor):
            for _ in range(count):
                key = _string(cursor)
                values[key] = value(cursor)
        cursor.depth -= 1
        return values

    return read


def _block(cursor: Cursor) -> int:
    count = cursor.long()
    if count < 0:
        count = -count
        cursor.long()  # the block's size in bytes, which only readers that skip the block need
    cursor.count(count)
    return count


def _record(fields: Sequence[tuple[str, Read]]) -> Read:
    def read(cursor: Cursor) -> dict[str, Any]:
        cursor.deeper()
        cursor.count(len(fields) + 1)
        value = {}
        for name, field in fields:
            value[name] = field(cursor)
        cursor.depth -= 1
        return value

    return read


def _enum(symbols: Sequence[str]) -> Read:
    def read(cursor: Cursor) -> str:
        index = cursor.long()
        if not 0 <= index < len(symbols):
            raise ViewError(f"no symbol {index} in an enum of {len(symbols)} (before byte {cursor.at})")
        return symbols[index]

    return read


def _fixed(size: int) -> Read:
    return lambda cursor: cursor.take(size)


_PRIMITIVE: Final[Mapping[str, Read]] = {
    "null": _null, "boolean": _boolean, "int": _int, "long": _long, "float": _float, "double": _double,
    "bytes": _bytes, "string": _string,
}  # fmt: skip


# --- logical types: values beyond the range of their type stay as they were read --------------------------------------

Logical = Callable[[Mapping[str, Any], Read], Read]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _shown(show: Callable[[Any], Any]) -> Logical:
    def logical(_: Mapping[str, Any], read: Read) -> Read:
        def reading(cursor: Cursor) -> Any:
            value = read(cursor)
            try:
                return show(value)
            except (OverflowError, ValueError):
                return value

        return reading

    return logical


def _decimal(schema: Mapping[str, Any], read: Read) -> Read:
    scale = int(schema.get("scale", 0))

    def reading(cursor: Cursor) -> Any:
        data = read(cursor)
        if len(data) > 512:  # printing longer numbers takes quadratic time
            return data
        number = int.from_bytes(data, "big", signed=True)
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))

    return reading


def _timestamp(per_second: int, zone: str) -> Logical:
    digits = len(str(per_second)) - 1

    def show(value: int) -> str:
        second, rest = divmod(value, per_second)
        return f"{(_EPOCH + timedelta(seconds=second)).strftime('%Y-%m-%dT%H:%M:%S')}.{rest:0{digits}d}{zone}"

    return _shown(show)


def _time(per_second: int) -> Logical:
    digits = len(str(per_second)) - 1

    def show(value: int) -> str:
        second, rest = divmod(value, per_second)
        if not 0 <= second < 86_400:
            raise ValueError
        return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{rest:0{digits}d}"

    return _shown(show)


def _date(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=days)).isoformat()


def _uuid(data: bytes) -> str:
    from uuid import UUID

    return str(UUID(bytes=data))


def _duration(data: bytes) -> dict[str, int]:
    months, days, milliseconds = struct.unpack("<3I", data)
    return {"months": months, "days": days, "milliseconds": milliseconds}


def _logical(schema: Mapping[str, Any], read: Read) -> Read:
    logical = _LOGICAL.get((schema["type"], schema.get("logicalType", "")))
    return read if logical is None else logical(schema, read)


_LOGICAL: Final[Mapping[tuple[str, str], Logical]] = {
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
    ("int", "date"): _shown(_date),
    ("int", "time-millis"): _time(1000),
    ("long", "time-micros"): _time(1_000_000),
    ("long", "timestamp-millis"): _timestamp(1000, "Z"),
    ("long", "timestamp-micros"): _timestamp(1_000_000, "Z"),
    ("long", "timestamp-nanos"): _timestamp(1_000_000_000, "Z"),
    ("long", "local-timestamp-millis"): _timestamp(1000, ""),
    ("long", "local-timestamp-micros"): _timestamp(1_000_000, ""),
    ("long", "local-timestamp-nanos"): _timestamp(1_000_000_000, ""),
    ("fixed", "uuid"): _shown(_uuid),
    ("fixed", "duration"): _shown(_duration),
}
