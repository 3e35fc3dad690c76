"""The ledger of a followed folder: its closed files in the order in which they are read, each of them once.

The ledger is a file with one line for each capture. The stream's offsets count these lines, so a repeated batch has the
same files, even if files of the folder have changed since.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from kproxy.captures import private
from kproxy.captures.errors import CaptureError
from kproxy.captures.formats.magic import begins_as_capture
from kproxy.captures.keys import HEAD
from kproxy.captures.spark.plan.files import head
from kproxy.captures.spark.plan.splits import began

QUIET: Final = 60.0
"""Default number of seconds for which the newest file must be unchanged to count as closed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as it was when it was found closed.

    `modified` is its mtime in ns. `digest` covers its first `known` bytes, decompressed.
    """

    path: str
    size: int
    modified: int
    known: int
    digest: str


class Ledger:
    """The list of the closed files of `folder`, kept in the file `path`."""

    def __init__(self, path: Path, folder: Path, quiet: float) -> None:
        """The newest file counts as closed once it is unchanged for `quiet` seconds."""
        self._path = path
        self._folder = folder
        self._quiet = quiet

    def entries(self) -> list[Entry]:
        if not self._path.exists():
            return []
        try:
            return [Entry(**json.loads(line)) for line in self._path.read_text("utf-8").splitlines()]
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self._path}: not a list of files that were read ({error})") from None

    def update(self) -> int:
        """Add the files that were closed since the last call; returns the number of files in the ledger."""
        held = self.entries()
        found = sorted(self._new(held), key=lambda one: (one[0] is None, one[0], one[1].path))
        if found:
            held += (entry for _, entry in found)
            lines = (json.dumps(asdict(entry)) + "\n" for entry in held)
            private.replace(self._path, "".join(lines), flush=True)
        return len(held)

    def _new(self, held: list[Entry]) -> Iterator[tuple[int | None, Entry]]:
        """The closed files that are not in `held`, each with the time of its first packet (None without packets)."""
        same = {(one.path, one.size, one.modified) for one in held}
        paths = {one.path: one for one in held}
        digests = {one.digest for one in held}
        for path, status in self._closed():
            if (str(path), status.st_size, status.st_mtime_ns) in same:
                continue
            try:
                first = head(str(path), HEAD)
                before = paths.get(str(path))
                if before is not None and _digest(first[: before.known]) == before.digest:
                    continue  # a known file to which packets were appended
                digest = _digest(first)
                if digest in digests:
                    continue  # a known file that was compressed or moved
                digests.add(digest)
                entry = Entry(str(path), status.st_size, status.st_mtime_ns, len(first), digest)
                yield began(str(path)), entry
            except CaptureError:
                continue  # deleted meanwhile

    def _closed(self) -> Iterator[tuple[Path, os.stat_result]]:
        """All captures in the folder. The newest is among them only if it is unchanged for `quiet` seconds."""
        there = []
        for path in sorted(self._folder.iterdir()):
            try:
                if not path.name.startswith(".") and path.is_file() and begins_as_capture(path):
                    there.append((path, path.stat()))
            except OSError:
                continue  # deleted meanwhile
        newest = max((status.st_mtime_ns for _, status in there), default=0)
        for path, status in there:
            if status.st_mtime_ns < newest or time.time() - status.st_mtime >= self._quiet:
                yield path, status


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
