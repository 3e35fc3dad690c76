"""Remembers from which files the tables in a folder were made, so that no row is written twice or removed in silence.

A reading has one or more files, and its rows are in Parquet files named after the reading. A file beside them,
`.READING.files.json`, lists the files of the reading by their content, whatever their paths. A new reading that has all
files of an earlier one replaces it; one that has only some of them is refused. The rule is the same wherever the folder
is (`Lists`), and whoever wrote the earlier list.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from kproxy.captures.compression import CompressionError, pieces
from kproxy.captures.formats.magic import begins_as_capture
from kproxy.captures.keys import HEAD, named

LEAST: Final = 1024
"""Size in bytes from which the beginning of a file tells it from others; file headers alone may be equal."""
LARGEST: Final = 64 << 20
"""Maximum number of bytes that are read of a list, those of some 400,000 files; a longer one counts as damaged."""
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


class Lists(Protocol):
    """The files at the top of a folder of tables, which may be missing; `str` of it is its name for messages."""

    def hidden(self) -> list[str]:
        """Names of the files that begin with a dot; none if the folder is missing."""

    def read(self, name: str, most: int) -> bytes:
        """The first `most` bytes of a file."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file; an existing one is replaced."""

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""


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

    def begin(self, lists: Lists, reading: str) -> None:
        """Write the list of files of `reading`, before any of its rows is there.

        So if the writing is interrupted, a reading of only some of these files is refused: rows of the others may be
        there already.
        """
        lists.write(_list(reading), json.dumps([asdict(one) for one in self.files]).encode())

    def end(self, lists: Lists, reading: str) -> None:
        """Remove the lists of the replaced readings, after all their rows."""
        for name in self.replaced:
            if name != reading:
                lists.remove(_list(name))


def heads(paths: Iterable[Path | str]) -> list[tuple[str, bytes]]:
    """(name, first HEAD bytes) of captures that are files, or in a folder; others, such as pipes, are left out."""
    found: list[tuple[str, bytes]] = []
    for path in map(Path, paths):
        files = sorted(filter(begins_as_capture, path.iterdir())) if path.is_dir() else [path]
        found += ((str(file), head) for file in files if file.is_file() and (head := _head(file)))
    return found


def origin(lists: Lists, given: Sequence[tuple[str, bytes]]) -> Origin:
    """The Origin of a reading of files (`heads`) whose tables will be written to a folder with these lists.

    Raises Overlap if the folder has a reading with some of these files and others, Unreadable if a list is damaged.
    """
    files = tuple(File(name, named(head), len(head)) for name, head in given)
    whole = {one.id for one in files}
    replaced = []
    for name in sorted(lists.hidden()):
        if not name.endswith(_SUFFIX):
            continue
        held = _read(lists, name)
        shared = [one for one in held if one.id in whole or any(one.is_now(*each) for each in given)]
        missing = [one.name for one in held if one not in shared]
        if shared and missing:
            raise Overlap(shared[0].name, missing)
        if shared:
            replaced.append(name[1 : -len(_SUFFIX)])
    return Origin(files, tuple(replaced))


def _list(reading: str) -> str:
    return f".{reading}{_SUFFIX}"


def _read(lists: Lists, name: str) -> list[File]:
    try:
        listed = json.loads(lists.read(name, LARGEST))
        return [File(str(one["name"]), str(one["id"]), int(one["size"])) for one in listed]
    except (ValueError, TypeError, KeyError, OSError, RecursionError) as error:
        raise Unreadable(f"{lists}/{name}: not a list of files ({error}); remove it to write here") from None


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
