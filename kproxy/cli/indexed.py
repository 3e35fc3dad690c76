"""The index of captures for the terminal interface: written by a process of its own, or from the cache."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.captures.errors import WARNING
from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure

if TYPE_CHECKING:
    from kproxy.cli.options.reading import Reading

FIRST_ROWS_SECONDS = 0.5
"""Longest wait for the first rows before the UI opens: if a capture is unreadable, a line says so and no UI opens."""


def refuse_segments(path: Path) -> None:
    """Raises Failure (exit 2) for a log segment, as it has no exchanges."""
    from kproxy.captures.formats.magic import begins_as_capture

    if not path.is_file() or begins_as_capture(path):
        return
    from kproxy.captures.opening import open_source
    from kproxy.captures.segments import holds_segments

    with closing(open_source(path)) as source:
        if holds_segments(source):
            raise Failure(f"{path}: this is a log segment; `kproxy export` and `kproxy stats` read it", Exit.USAGE)


class Index:
    """An index in `directory`: `process` is writing it, or it is complete if there is no process."""

    def __init__(
        self,
        directory: Path,
        process: subprocess.Popen[bytes] | None = None,
        *,
        warn: Callable[[str], None] = settings.warn,
    ) -> None:
        self.directory = directory
        self._process = process
        self._warn = warn

    @property
    def meta(self) -> dict[str, Any]:
        try:
            meta: dict[str, Any] = json.loads((self.directory / "meta.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return meta

    def wait_for_rows(self, seconds: float) -> None:
        """Waits until the index has rows or has ended, at most `seconds`. Raises Failure if indexing has failed."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            meta = self.meta
            if meta.get("rows"):
                return
            if meta.get("state") == "failed":
                self.raise_failure()
            if meta.get("state") in {"complete", "stopped"}:
                return
            if self._process is not None and self._process.poll() is not None and not meta:
                raise Failure(self._said() or "the capture cannot be indexed")
            time.sleep(0.01)

    def raise_failure(self) -> None:
        """Raises Failure (exit 3) if the capture could not be read to its end, or the indexer has failed."""
        error = self.meta.get("error")
        if error:
            raise Failure(str(error["text"]), Exit.INPUT)
        if self._process is not None and self._process.poll() not in {None, 0}:
            raise Failure(self._said() or "the process that indexes the capture was killed", Exit.INPUT)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for line in self._lines():
            if line.startswith(WARNING):
                self._warn(line.removeprefix(WARNING))
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _said(self) -> str:
        lines = [line for line in self._lines() if not line.startswith(WARNING)]
        return lines[-1].removeprefix("kproxy: ") if lines else ""

    def _lines(self) -> list[str]:
        """The lines on standard error of the ended process that were not read yet."""
        said = b"" if self._process is None or self._process.stderr is None else self._process.stderr.read()
        return said.decode("utf-8", "replace").strip().splitlines()


@contextmanager
def indexed(
    captures: Sequence[Path],
    reading: Reading,
    *,
    follow: bool = False,
    patience: float = FIRST_ROWS_SECONDS,
    warn: Callable[[str], None] = settings.warn,
) -> Iterator[Index]:
    """A context manager that gives the index of captures, from the cache or from a new process; removes it at the end.

    The block begins once the index has rows, or after `patience` seconds. `warn` gets the warnings of the process.
    Raises CaptureError or Failure if there is nothing to show.
    """
    from kproxy.captures.index import cached
    from kproxy.captures.source import check
    from kproxy.captures.spool import Spooling
    from kproxy.runs import scratch

    if not any(str(path) == "-" for path in captures):
        check(captures)  # prints errors before the UI opens
    try:
        parent = scratch.new(scratch.cache_dir(), "replay")
    except OSError:
        parent = scratch.new(scratch.temporary(), "replay")
    held = scratch.hold(parent)
    directory = parent / "index"
    try:
        entry = (
            None
            if follow
            else cached.entry(
                captures,
                ports=str(reading.ports) if reading.ports else None,
                release=reading.release,
                user_definitions=reading.user_definitions,
                keylog=reading.keylog,
            )
        )
        spools = None if entry is None else cached.lend(entry, directory, reading.spooling or Spooling())
        if spools is not None:
            with ExitStack() as closing_spools:
                for spool in spools:
                    closing_spools.callback(spool.close)
                index = Index(directory)
                index.wait_for_rows(patience)
                yield index
            return
        arguments = [*reading.words(), "--follow" if follow else "--keep"]
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kproxy.captures.index.indexer", "--with-parent", *arguments, "--",
             *map(str, captures), str(directory)],
            stdin=None if str(captures[0]) == "-" else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        index = Index(directory, process, warn=warn)
        try:
            # Importing the interface takes about as long as the first rows, so both happen at once.
            importlib.import_module("kproxy.tui.app")
            index.wait_for_rows(patience)
            yield index
        finally:
            index.stop()
    finally:
        scratch.remove(parent)
        os.close(held)
