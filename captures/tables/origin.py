"""Remembers from which files the tables in a folder were made, so that no row is written twice or removed in silence.

A reading has one or more files, and its rows are in Parquet files named after the reading. A file beside them,
`.READING.files.json`, lists the files of the reading by their content, whatever their paths. A new reading that has all
files of an earlier one replaces it; one that has only some of them is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from kproxy.captures import private
from kproxy.captures.compression import CompressionError, pieces
from kproxy.captures.formats.magic import begins_as_capture
from kproxy.captures.keys import HEAD, named

LEAST: Final = 1024
"""Size in bytes from which the beginning of a file tells it from others; file headers alone may be equal."""
_SUFFIX: Final = ".files.json"


class Unreadable(Exception):  # noqa: N818 (a finding about a folder)
    """A list of files is damaged."""


class Overlap(Exception):  # noqa: N818 (a finding about a folder)
    """A reading has some files of an earlier one, but not all: replacing that one would lose `missing`."""

    def __init__(self, shared: str, missing: Sequence[str]) -> None:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        super().__init__(
            f"holds tables of {shared} read together with {missing[0]}{others}: read all these files again, or choose "
            "another folder"
        )
        self.missing = missing


@dataclass(frozen=True, slots=True)
class File:
    """A file of a reading: `id` is the hash of its first `size` bytes (decompressed), at most captures.keys.HEAD."""

    name: str
    id: str
    size: int

    def is_now(self, name: str, head: bytes) -> bool:
        """Whether the file with these first bytes is this one, perhaps grown since; then it has the same beginning."""
        if len(head) < self.size or named(head[: self.size]) != self.id:
            return False
        return len(head) == self.size or self.size >= LEAST or name == self.name


@dataclass(frozen=True, slots=True)
class Origin:
    """The files of a reading, and the names of earlier readings that it replaces."""

    files: tuple[File, ...]
    replaced: tuple[str, ...] = ()

    def write(self, directory: Path, reading: str) -> None:
        """Write the list of files of `reading`, and remove the lists of the replaced readings."""
        path = directory / f".{reading}{_SUFFIX}"
        aside = directory / f".{reading}{_SUFFIX}.{os.getpid()}"
        with private.output(aside) as out:
            out.write(json.dumps([asdict(one) for one in self.files]).encode())
        private.inherit(aside)
        aside.replace(path)
        for name in self.replaced:
            if name != reading:
                (directory / f".{name}{_SUFFIX}").unlink(missing_ok=True)


def heads(paths: Iterable[Path | str]) -> list[tuple[str, bytes]]:
    """(name, first HEAD bytes) of captures that are files, or in a folder; others, such as pipes, are left out."""
    found: list[tuple[str, bytes]] = []
    for path in map(Path, paths):
        files = sorted(filter(begins_as_capture, path.iterdir())) if path.is_dir() else [path]
        found += ((str(file), head) for file in files if file.is_file() and (head := _head(file)))
    return found


def origin(directory: Path, given: Sequence[tuple[str, bytes]]) -> Origin:
    """The Origin of a reading of files (`heads`) whose tables will be written to a folder.

    Raises Overlap if the folder has a reading with some of these files and others, Unreadable if a list is damaged.
    """
    files = tuple(File(name, named(head), len(head)) for name, head in given)
    whole = {one.id for one in files}
    replaced = []
    for path in sorted(directory.glob(f".*{_SUFFIX}")):
        held = _read(path)
        shared = [one for one in held if one.id in whole or any(one.is_now(*each) for each in given)]
        missing = [one.name for one in held if one not in shared]
        if shared and missing:
            raise Overlap(shared[0].name, missing)
        if shared:
            replaced.append(path.name[1 : -len(_SUFFIX)])
    return Origin(files, tuple(replaced))


def _read(path: Path) -> list[File]:
    try:
        listed = json.loads(path.read_bytes())
        return [File(str(one["name"]), str(one["id"]), int(one["size"])) for one in listed]
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise Unreadable(f"{path}: not a list of files ({error}); remove it to write here") from None


def _head(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    head = b""
    try:
        for piece in pieces(descriptor):
            head += piece
            if len(head) >= HEAD:
                break
    except (OSError, CompressionError):
        pass
    finally:
        os.close(descriptor)
    return head[:HEAD]
