"""Folders of tables at URLs, by Spark's file systems (Hadoop's)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession

from kproxy.captures.spark.plan.files import shown

_CHECKSUMMED: Final = "org.apache.hadoop.fs.ChecksumFileSystem"
"""Hadoop's class of file systems that keep a checksum in a file beside each: `file://`."""


class Folder:
    """A folder of tables at a URL (captures.tables.folders.Folder); sources are names of files in it.

    Its methods raise py4j's exceptions.
    """

    def __init__(self, spark: SparkSession, url: str) -> None:
        # private members, because Spark's Python has no other way to its file systems
        self._jvm: Any = spark._jvm  # noqa: SLF001
        self.url = url.rstrip("/")
        self._root = self._path("")
        self._system = self._root.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
        self._plain = self._without_checksums()

    def __str__(self) -> str:
        return shown(self.url)

    def hidden(self) -> list[str]:
        if not self._plain.exists(self._root):
            return []
        files = (one.getPath().getName() for one in self._plain.listStatus(self._root) if one.isFile())
        return [name for name in files if name.startswith(".")]

    def read(self, name: str, most: int) -> bytes:
        path = self._path(name)
        size = min(int(self._plain.getFileStatus(path).getLen()), most)
        file = self._plain.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(file, size))
        finally:
            file.close()

    def write(self, name: str, data: bytes) -> None:
        file = self._plain.create(self._path(name), True)
        try:
            file.write(bytearray(data))
        finally:
            file.close()

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its content; does nothing if there is none."""
        self._system.delete(self._path(name), True)

    def files(self, folder: str) -> list[str]:
        """The Parquet files below a folder, in order."""
        path = self._path(folder)
        if not self._plain.exists(path):
            return []
        return sorted(name for name in self._names(path) if name.endswith(".parquet"))

    def put(self, source: str, to: str) -> None:
        """Move a file of this folder to another place in it.

        A replaced file is missing for a moment, because most of these file systems cannot replace a file. Raises
        OSError if the file cannot be moved.
        """
        target = self._path(to)
        self._plain.mkdirs(target.getParent())
        self._system.delete(target, False)
        if not self._plain.rename(self._path(source), target):
            raise OSError(f"{self}: {source} cannot be moved to {to}")

    def _without_checksums(self) -> Any:
        """The file system, without checksums in files: other programs would replace a file, but not its checksum."""
        if self._jvm.py4j.reflection.TypeUtil.isInstanceOf(_CHECKSUMMED, self._system):
            return self._system.getRawFileSystem()
        return self._system

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.url}/{name}" if name else self.url)

    def _names(self, path: Any) -> Iterator[str]:
        root = self._plain.makeQualified(self._root).toString()
        found = self._plain.listFiles(path, True)
        while found.hasNext():
            yield found.next().getPath().toString().removeprefix(root).lstrip("/")


def written(folder: Folder, aside: str, reading: str, tables: Sequence[str]) -> dict[str, str]:
    """The files that Spark has written for a reading to the folder `aside`, by the names that they get in place."""
    found: dict[str, str] = {}
    for table in tables:
        numbers: dict[str, int] = {}
        for path in folder.files(f"{aside}/{table}"):
            level = path.removeprefix(f"{aside}/").rpartition("/")[0]
            numbers[level] = numbers.get(level, 0) + 1
            found[f"{level}/{reading}-{numbers[level]:04}.parquet"] = path
    return found
