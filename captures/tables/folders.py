"""Folders of tables: puts the files of a reading in place, where earlier readings may have some.

    DIR/exchanges/capture_date=2026-11-21/capture_hour=05/9f3c…-0001.parquet

What must happen in which order is said once here, for folders on this machine (`Local`), at URLs by pyarrow's file
systems (captures.spark.write.uploads) and by Spark's (captures.spark.write.hadoop).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from kproxy.captures import private
from kproxy.captures.tables.origin import Lists, Origin
from kproxy.captures.tables.schema import TABLES

Source_contra = TypeVar("Source_contra", contravariant=True)
"""The type that names a file to be put in place: a path on this machine, or a name in the folder."""


class Folder(Lists, Protocol[Source_contra]):
    """A folder of tables. Names of files are relative to it, with "/" between levels."""

    def files(self, table: str) -> list[str]:
        """The Parquet files of a table; none if it is missing."""

    def put(self, source: Source_contra, to: str) -> None:
        """Put a complete file in place under the name `to`; an existing one is replaced."""


class Target(Folder[Path], Protocol):
    """A folder of tables whose files are first written on this machine."""

    def aside(self, reading: str) -> Path:
        """An empty folder for the files of a reading, which the caller removes. Raises OSError if it cannot be made."""
        ...


class Local:
    """A folder on this machine, or one that is mounted here. Its methods raise OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def hidden(self) -> list[str]:
        return [path.name for path in self._path.glob(".*") if path.is_file()]

    def read(self, name: str, most: int) -> bytes:
        with (self._path / name).open("rb") as file:
            return file.read(most)

    def write(self, name: str, data: bytes) -> None:
        path, beside = self._path / name, self._path / f"{name}.{os.getpid()}"
        with private.output(beside) as out:
            out.write(data)
        private.inherit(beside)
        beside.replace(path)

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def files(self, table: str) -> list[str]:
        return [str(path.relative_to(self._path)) for path in (self._path / table).glob("*/*/*.parquet")]

    def put(self, source: Path, to: str) -> None:
        there = self._path / to
        private.inherited(there.parent)
        source.replace(there)

    def aside(self, reading: str) -> Path:
        """A hidden folder in this one."""
        aside = self._path / f".{reading}.partial"
        if aside.exists():
            shutil.rmtree(aside)
        private.place(self._path)
        return private.inherited(aside)


def complete(aside: Path, reading: str) -> dict[str, Path]:
    """The complete files of a reading in the folder `aside`, by the names under which they are to be put in place."""
    return {str(path.relative_to(aside)): path for path in aside.rglob(f"{reading}-*.parquet")}


def place(
    folder: Folder[Source_contra], written: Mapping[str, Source_contra], reading: str, origin: Origin | None = None
) -> None:
    """Put the files of a reading in place: `written` has the source of each by its name.

    Files of an earlier writing of this reading are removed, and those of the readings that `origin` replaces; without
    it, the folder does not record the files of the reading. If this is interrupted, the same reading can be written
    again, and what could double or lose rows is refused until then.
    """
    if origin is not None:
        origin.begin(folder, reading)
    for name in sorted(written):
        folder.put(written[name], name)
    gone = {reading, *(() if origin is None else origin.replaced)}
    for table in TABLES:
        for name in folder.files(table):
            if name not in written and name.rpartition("/")[2].partition("-")[0] in gone:
                folder.remove(name)
    if origin is not None:
        origin.end(folder, reading)
