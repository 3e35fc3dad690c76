"""Schemas from the files of a folder, without a network.

A file's name says which payloads the schema is for: `orders-value.avsc` and `orders-key.avsc` those of the topic
"orders", `42.avsc` or `GUID.avsc` those with this schema id. `.avsc` is Avro, `.json` JSON Schema, `.desc` and `.pb` a
FileDescriptorSet (`protoc --include_imports --descriptor_set_out`), whose file name may name the message:
`orders-value.shop.Order.desc`. All other `.avsc` and `.json` files hold definitions that these schemas refer to: a
named type, or the target of a `$ref` to the file's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kproxy.decoders.payloads.avro import AvroViewer
from kproxy.decoders.payloads.jsonschema import JsonSchemaViewer
from kproxy.decoders.payloads.protobuf import ProtobufViewer
from kproxy.decoders.payloads.reading import SchemaViewer
from kproxy.decoders.payloads.schemas import IdKind, Missing, Part, Schema, SchemaType, named

TYPES: Final[Mapping[str, SchemaType]] = {
    ".avsc": SchemaType.AVRO,
    ".json": SchemaType.JSON,
    ".desc": SchemaType.PROTOBUF,
    ".pb": SchemaType.PROTOBUF,
}
LARGEST: Final = 8 << 20
"""Largest size in bytes of a file that is read."""
MOST: Final = 10_000
"""Maximum number of files that are read."""

_VIEWERS: Final[Mapping[SchemaType, SchemaViewer]] = {
    viewer.type: viewer for viewer in (AvroViewer(), JsonSchemaViewer(), ProtobufViewer())
}
_NAME: Final = re.compile(
    r"(?:(?P<id>\d+)|(?P<guid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})|(?P<subject>.+-(?:key|value)))"
    r"(?:\.(?P<message>.+))?",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Folder:
    """The schemas of a folder; `warnings` lists the files that cannot be used, with reasons."""

    path: Path
    warnings: list[str] = field(default_factory=list)
    _ids: dict[str, Schema] = field(default_factory=dict)
    _subjects: dict[str, Schema] = field(default_factory=dict)

    def by_id(self, kind: IdKind, value: int | str) -> Schema | Missing:
        """The schema with this id. A number in a file name stands for a schema id, global id and content id alike."""
        return self._ids.get(str(value)) or Missing(f"{named(kind, value)} not found: no {value}.avsc in {self.path}")

    def by_name(self, topic: str, part: str) -> Schema | Missing:
        subject = f"{topic}-{part}"
        return self._subjects.get(subject) or Missing(f"no schema: no {subject}.avsc in {self.path}")

    def add(self, name: str, content: bytes, others: Mapping[SchemaType, tuple[Part, ...]]) -> None:
        """Adds a schema file, or a warning if it is invalid.

        `others` are further files of the folder that it may refer to.
        """
        kind = TYPES[Path(name).suffix]
        match = _NAME.fullmatch(Path(name).stem)
        assert match is not None  # noqa: S101 (the caller asked)
        message = match["message"]
        number = match["id"] or match["guid"]
        try:
            parts = _files(content) if kind is SchemaType.PROTOBUF else (*others.get(kind, ()), Part("", content))
            schema = Schema(kind, parts, name, (int(number) if match["id"] else number) if number else None, message)
            problem = _VIEWERS[kind].problem(schema)
        except ValueError as error:
            problem = str(error)
        if problem is not None:
            self.warnings.append(f"{self.path / name}: {problem}")
        elif number:
            self._ids[number.lower()] = schema
        else:
            self._subjects[match["subject"]] = schema


def load(path: Path) -> Folder:
    """Loads the schemas of a folder. Raises OSError if the folder itself cannot be read."""
    folder = Folder(path)
    contents = dict(_contents(folder))
    apart = {
        name
        for name in contents
        if (match := _NAME.fullmatch(Path(name).stem)) and (not match["message"] or _kind(name) is SchemaType.PROTOBUF)
    }
    others: dict[SchemaType, tuple[Part, ...]] = {}
    for name, content in contents.items():
        if name in apart:
            continue
        if _kind(name) is SchemaType.PROTOBUF:
            folder.warnings.append(f"{path / name}: its name gives neither topic nor id (TOPIC-value.desc, 42.desc)")
        else:
            others[_kind(name)] = (*others.get(_kind(name), ()), Part(name, content))
    for name in sorted(apart):
        folder.add(name, contents[name], others)
    return folder


def _kind(name: str) -> SchemaType:
    return TYPES[Path(name).suffix]


def _contents(folder: Folder) -> list[tuple[str, bytes]]:
    contents = []
    files = sorted(file for file in folder.path.iterdir() if file.suffix in TYPES)
    for file in files[:MOST]:
        try:
            with file.open("rb") as stream:
                content = stream.read(LARGEST + 1)
        except OSError as error:
            folder.warnings.append(f"{file}: {error.strerror}")
            continue
        if len(content) > LARGEST:
            folder.warnings.append(f"{file}: more than {LARGEST} bytes")
        else:
            contents.append((file.name, content))
    if len(files) > MOST:
        folder.warnings.append(f"{folder.path}: more than {MOST} files, the rest is not read")
    return contents


def _files(content: bytes) -> tuple[Part, ...]:
    """The files of a descriptor set in protoc's order, imported files first. Raises ValueError."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    try:
        files = FileDescriptorSet.FromString(content).file
    except DecodeError:
        raise ValueError("not a FileDescriptorSet") from None
    if not files:
        raise ValueError("a FileDescriptorSet without files")
    return tuple(Part(file.name, file.SerializeToString()) for file in files)
