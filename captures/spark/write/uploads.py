"""Folders of tables at URLs, by pyarrow's file systems: files are written on this machine and uploaded."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from kproxy.captures.spark.plan.files import as_capture_errors, file_system, shown


class Folder:
    """A folder of tables at a URL (captures.tables.folders.Target). Its methods raise CaptureError."""

    def __init__(self, url: str) -> None:
        self._url = url
        with as_capture_errors(url):
            self._system, path = file_system(url)
        self._path = path.rstrip("/")

    def __str__(self) -> str:
        return shown(self._url)

    def hidden(self) -> list[str]:
        return [one.base_name for one in self._listed("") if one.base_name.startswith(".")]

    def read(self, name: str, most: int) -> bytes:
        with as_capture_errors(self._url), self._system.open_input_file(f"{self._path}/{name}") as file:
            data: bytes = file.read(most)
            return data

    def write(self, name: str, data: bytes) -> None:
        with as_capture_errors(self._url):
            self._system.create_dir(self._path)
            with self._system.open_output_stream(f"{self._path}/{name}") as file:
                file.write(data)

    def remove(self, name: str) -> None:
        from pyarrow import fs

        with as_capture_errors(self._url):
            if self._system.get_file_info(f"{self._path}/{name}").type == fs.FileType.File:
                self._system.delete_file(f"{self._path}/{name}")

    def files(self, table: str) -> list[str]:
        paths = (one.path.removeprefix(f"{self._path}/") for one in self._listed(table, recursive=True))
        return [path for path in paths if path.endswith(".parquet")]

    def put(self, source: Path, to: str) -> None:
        from pyarrow import fs

        there = f"{self._path}/{to}"
        with as_capture_errors(self._url):
            self._system.create_dir(there.rpartition("/")[0])
            fs.copy_files(str(source), there, fs.LocalFileSystem(), self._system)

    def aside(self, reading: str) -> Path:  # noqa: ARG002  # each has a folder of its own
        """A temporary folder."""
        return Path(mkdtemp(prefix="kproxy-"))

    def _listed(self, folder: str, *, recursive: bool = False) -> list[Any]:
        """pyarrow.fs.FileInfo of the files in a folder; none if it is missing."""
        from pyarrow import fs

        selector = fs.FileSelector(f"{self._path}/{folder}".rstrip("/"), allow_not_found=True, recursive=recursive)
        with as_capture_errors(self._url):
            return [one for one in self._system.get_file_info(selector) if one.type == fs.FileType.File]
