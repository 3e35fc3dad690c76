"""Puts tables at a URL in place by Spark's file systems (Hadoop's)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession


class Folder:
    """A folder at a URL; names of files are relative to it. Raises OSError if a file cannot be changed."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        # private members, because Spark's Python has no other way to its file systems
        self._jvm: Any = spark._jvm  # noqa: SLF001
        self.url = url.rstrip("/")
        self._root = self._path("")
        self._system = self._root.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001

    def files(self, folder: str) -> list[str]:
        """The Parquet files below a folder, in order."""
        path = self._path(folder)
        if not self._system.exists(path):
            return []
        return sorted(name for name in self._names(path) if name.endswith(".parquet"))

    def move(self, name: str, to: str) -> None:
        target = self._path(to)
        self._system.mkdirs(target.getParent())
        self._system.delete(target, False)
        if not self._system.rename(self._path(name), target):
            raise OSError(f"{self.url}: {name} cannot be moved to {to}")

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its content; does nothing if there is none."""
        self._system.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.url}/{name}" if name else self.url)

    def _names(self, path: Any) -> Iterator[str]:
        root = self._system.makeQualified(self._root).toString()
        found = self._system.listFiles(path, True)
        while found.hasNext():
            yield found.next().getPath().toString().removeprefix(root).lstrip("/")


def place(folder: Folder, aside: str, name: str, tables: Sequence[str], every: Sequence[str]) -> None:
    """Move the files of `tables` from the folder `aside` to their places.

    Files of an earlier writing whose names begin with `name` are removed, in all tables of `every`. A replaced file is
    missing for a moment, because most of these file systems cannot replace a file.
    """
    written = set()
    for table in tables:
        numbers: dict[str, int] = {}
        for path in folder.files(f"{aside}/{table}"):
            level = path.removeprefix(f"{aside}/").rpartition("/")[0]
            numbers[level] = numbers.get(level, 0) + 1
            to = f"{level}/{name}-{numbers[level]:04}.parquet"
            folder.move(path, to)
            written.add(to)
    for table in every:
        for path in folder.files(table):
            if path.rpartition("/")[2].startswith(f"{name}-") and path not in written:
                folder.remove(path)
