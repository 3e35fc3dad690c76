"""Tables that change atomically: readers see all changes of a batch, in every table, or none.

There are two trees of links to the same files. Readers use one; the other is brought to the next state, and then the
link to the tree in use is replaced, which is one atomic rename.

    OUT/exchanges -> .follow/read/exchanges
    OUT/.follow/read -> a
    OUT/.follow/{a,b}/exchanges/capture_date=2026-11-21/capture_hour=05/9f3c…-000007-0001.parquet
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kproxy.captures import private
from kproxy.captures.tables.schema import TABLES

READ: Final = "read"
TREES: Final = ("a", "b")


class Switch:
    """The tables in the folder `out`, which change atomically; their trees of links are in the folder `state`.

    Tables that already exist in `out` become part of the first tree. Raises OSError if a file or link cannot be made.
    """

    def __init__(self, out: Path, state: Path) -> None:
        self._out = out
        self._state = state
        self._read = state / READ
        if not self._read.is_symlink():
            for tree in TREES:
                private.inherited(state / tree)
            self._turn(TREES[0])
        for name in TABLES:
            here = out / name
            if here.is_dir() and not here.is_symlink():
                here.rename(self._read / name)
                self._link(here)

    def put(self, folders: Sequence[Path], instead: Sequence[str]) -> None:
        """Add the files of tables below `folders`, and remove the files whose names begin with one of `instead`."""
        shown = self._read.readlink().name
        other = TREES[1 - TREES.index(shown)]
        kept = ((path, name) for path, name in _files(self._state / shown) if not path.name.startswith(tuple(instead)))
        wanted = {name: path for path, name in kept} | {name: path for one in folders for path, name in _files(one)}
        for path, name in _files(self._state / other):
            if name not in wanted or not path.samefile(wanted[name]):
                path.unlink()
        for name, path in wanted.items():
            there = self._state / other / name
            if not there.exists():
                private.inherited(there.parent)
                there.hardlink_to(path)
        self._turn(other)
        for name in TABLES:
            here = self._out / name
            if (self._read / name).is_dir() and not here.is_symlink():
                self._link(here)

    def _link(self, table: Path) -> None:
        table.symlink_to(os.path.relpath(self._read / table.name, self._out), target_is_directory=True)

    def _turn(self, tree: str) -> None:
        aside = self._read.with_suffix(".partial")
        aside.unlink(missing_ok=True)
        aside.symlink_to(tree, target_is_directory=True)
        aside.replace(self._read)


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    """(path, path relative to the folder) of each Parquet file below a folder."""
    for path in sorted(folder.rglob("[!.]*.parquet")):
        yield path, str(path.relative_to(folder))
