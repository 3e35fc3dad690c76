"""A viewer for Protobuf with descriptors.

Fields have the names of the .proto file; a field that the message's type does not define is "#number". Fields that are
missing in the payload are not shown. Well-known types have the form of Protobuf's JSON mapping.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from kproxy.decoders.payloads.reading import CompilingViewer, Reading
from kproxy.decoders.payloads.schemas import Part, Schema, SchemaType
from kproxy.decoders.payloads.viewer import Content, ViewError
from kproxy.decoders.payloads.wire import message_indexes

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

KNOWN: Final = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
)  # fmt: skip
"""Names of the files that come with Protobuf: google/protobuf/NAME.proto."""

MAPPED: Final = frozenset({"Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue"})
"""Messages of google.protobuf that have a special form in JSON."""
WRAPPERS: Final = frozenset(
    {"BoolValue", "BytesValue", "DoubleValue", "FloatValue", "Int32Value", "Int64Value", "StringValue", "UInt32Value",
     "UInt64Value"}
)  # fmt: skip
"""Messages of google.protobuf that hold a single value; JSON shows this value in their place."""


class ProtobufViewer(CompilingViewer["Types"]):
    name = "protobuf"
    title = "Protobuf"
    type = SchemaType.PROTOBUF

    def read(self, reading: Reading) -> Content:
        types = self.compiled(reading.schema)
        descriptor, body = types.find(reading)
        try:
            return Content(_message(types.message(descriptor, body), types), reading.schema)
        except RecursionError:
            raise ViewError("messages nest too deep") from None

    def compile(self, schema: Schema) -> Types | ViewError:
        return types_of(schema)


class Types:
    """The message types of a schema."""

    def __init__(self, pool: DescriptorPool, main: FileDescriptorProto, message: str | None) -> None:
        self._pool = pool
        self._main: FileDescriptor = pool.FindFileByName(main.name)
        self._order = [one.name for one in main.message_type]
        self._message = message

    def find(self, reading: Reading) -> tuple[Descriptor, bytes]:
        """(type of a payload's message, bytes of the message). Raises ViewError if the schema has no such type."""
        if reading.framed is None:
            return self._named(self._message) if self._message else self._at([0]), reading.body
        if reading.framed.indexes is not None:
            return self._at(message_indexes(reading.framed.indexes)[0]), reading.body
        if reading.framed.kind.startswith(("global", "content")):
            referred = self._referred(reading.body)
            if referred is not None:
                return referred
        if reading.framed.in_header:
            return self._at([0]), reading.body
        path, start = message_indexes(reading.body)
        return self._at(path), reading.body[start:]

    def message(self, descriptor: Descriptor, data: bytes) -> Message:
        """Decode a message of this type. Raises ViewError if the bytes are not one."""
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        message = GetMessageClass(descriptor)()
        try:
            message.ParseFromString(data)
        except DecodeError:
            raise ViewError(f"the bytes are not a {descriptor.full_name}") from None
        return message

    def any(self, message: Message) -> Message | None:
        """The message in a google.protobuf.Any; None if the schema does not define its type."""
        url: Any = getattr(message, "type_url", "")
        try:
            descriptor = self._pool.FindMessageTypeByName(url.rpartition("/")[2])
        except KeyError:
            return None
        return self.message(descriptor, getattr(message, "value", b""))

    def _at(self, path: Sequence[int]) -> Descriptor:
        level: Sequence[Any] = [self._main.message_types_by_name[name] for name in self._order]
        found = None
        for index in path:
            if not 0 <= index < len(level):
                raise ViewError(f"no message {'.'.join(map(str, path))} in {self._main.name}")
            found = level[index]
            level = found.nested_types
        if found is None:
            raise ViewError(f"no message in {self._main.name}")
        descriptor: Descriptor = found
        return descriptor

    def _named(self, name: str) -> Descriptor:
        for full in (name, f"{self._main.package}.{name}"):
            try:
                return self._pool.FindMessageTypeByName(full)
            except KeyError:
                continue
        raise ViewError(f"no message {name} in {self._main.name}")

    def _referred(self, body: bytes) -> tuple[Descriptor, bytes] | None:
        """Read the type name that Apicurio puts before a payload.

        Returns (type, payload after it), None if there is none.
        """
        if len(body) < 3 or body[1] != 0x0A or body[0] >= 0x80 or body[2] > body[0] - 2 or len(body) <= body[0]:
            return None
        name = body[3 : 3 + body[2]].decode("utf-8", "replace")
        try:
            return self._named(name), body[1 + body[0] :]
        except ViewError:
            return None


@lru_cache(maxsize=1000)
def types_of(schema: Schema) -> Types | ViewError:
    """The message types of a schema. If its descriptors are invalid or contradictory, a ViewError is returned, not
    raised.
    """
    from google.protobuf.descriptor_pool import DescriptorPool

    try:
        files = [_file(part) for part in schema.parts]
        pool = DescriptorPool()
        given = {file.name: file for file in files}
        added: set[str] = set()
        for file in files:
            _add(pool, file, given, added)
        types = Types(pool, files[-1], schema.message)
    except ViewError as error:
        return error
    except Exception as error:  # noqa: BLE001 (what the pool says of bad descriptors is of any type)
        return ViewError(f"a bad descriptor: {error}")
    return types


def _file(part: Part) -> FileDescriptorProto:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto.FromString(part.content)
    if part.name:
        file.name = part.name
    return file


def _add(
    pool: DescriptorPool, file: FileDescriptorProto, given: Mapping[str, FileDescriptorProto], added: set[str]
) -> None:
    """Add a file to `pool` after the files it imports. Imports may be missing if only options need them.

    `given` holds the schema's files by name, `added` the names of files that are in the pool.
    """
    if file.name in added:
        return
    added.add(file.name)
    missing = []
    for name in file.dependency:
        if name in given:
            _add(pool, given[name], given, added)
        elif (known := _known(name)) is not None:
            _add(pool, known, given, added)
        else:
            missing.append(name)
    if missing:
        kept = [name for name in file.dependency if name not in missing]
        del file.dependency[:], file.public_dependency[:], file.weak_dependency[:]
        file.dependency.extend(kept)
    try:
        pool.AddSerializedFile(file.SerializeToString())
    except TypeError as error:
        if missing:
            raise ViewError(f"{file.name} imports {', '.join(missing)}, which the schema does not come with") from None
        raise ViewError(f"{file.name}: {error}") from None


def _known(name: str) -> FileDescriptorProto | None:
    """The file of this name that comes with Protobuf; None if there is none."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    stem = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if stem not in KNOWN or name != f"google/protobuf/{stem}.proto":
        return None
    module = importlib.import_module(f"google.protobuf.{stem}_pb2")
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


# --- values ----------------------------------------------------------------------------------------------------------


def _message(message: Message, types: Types) -> Any:
    """The value of a message for JSON. The recursion is bounded, because Protobuf's parser limits nesting."""
    package, _, name = message.DESCRIPTOR.full_name.rpartition(".")
    if package == "google.protobuf":
        if name in WRAPPERS:
            return getattr(message, "value")  # noqa: B009 (the type of a descriptor's message is not known to mypy)
        if name in MAPPED and (mapped := _mapped(message)) is not None:
            return mapped
        if name == "Any" and (inner := types.any(message)) is not None:
            value = _message(inner, types)
            held = value if isinstance(value, dict) else {"value": value}
            return {"@type": getattr(message, "type_url", ""), **held}
    shown = {_name(field): _field(field, value, types) for field, value in message.ListFields()}
    _add_unknown(message, shown)
    return shown


def _mapped(message: Message) -> Any:
    """The value of a well-known type in Protobuf's JSON mapping; None if it is out of range."""
    from google.protobuf.json_format import MessageToJson

    try:
        return json.loads(MessageToJson(message))
    except Exception:  # noqa: BLE001 (what is out of range raises errors of many types)
        return None


def _name(field: FieldDescriptor) -> str:
    return f"[{field.full_name}]" if field.is_extension else field.name


def _field(field: FieldDescriptor, value: Any, types: Types) -> Any:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        content = kind.fields_by_name["value"]
        return {key: _scalar(content, value[key], types) for key in value}
    if field.is_repeated:
        return [_scalar(field, one, types) for one in value]
    return _scalar(field, value, types)


def _scalar(field: FieldDescriptor, value: Any, types: Types) -> Any:
    if field.message_type is not None:
        return _message(value, types)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    return value


def _add_unknown(message: Message, shown: dict[str, Any]) -> None:
    """Add a message's unknown fields to `shown`: numbers, bytes, and null for a group."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    fields: Any = UnknownFieldSet(message)
    for field in fields:
        name = f"#{field.field_number}"
        content = field.data if isinstance(field.data, int | bytes) else None
        before = shown.get(name)
        shown[name] = content if name not in shown else [*(before if isinstance(before, list) else [before]), content]
