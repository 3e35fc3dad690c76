"""Compiles .proto files in a test."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass


def compiled(directory: Path, sources: Mapping[str, str]) -> bytes:
    """The FileDescriptorSet of `sources` (text by file name) and all their imports, imports first."""
    from grpc_tools import protoc

    for name, text in sources.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    out = directory / "out.desc"
    code = protoc.main(
        ["protoc", f"-I{directory}", f"-I{files('grpc_tools') / '_proto'}", "--include_imports",
         f"--descriptor_set_out={out}", *sources]
    )  # fmt: skip
    assert code == 0
    return out.read_bytes()


def classes(descriptors: bytes, *names: str) -> list[Any]:
    """Message classes of a FileDescriptorSet."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors).file:
        pool.AddSerializedFile(file.SerializeToString())
    return [GetMessageClass(pool.FindMessageTypeByName(name)) for name in names]
