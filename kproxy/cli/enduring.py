"""Output that a full disk does not end, for commands that forward or record traffic meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TextIO

from kproxy.cli.exits import OUTPUT_ERRORS

MOST_WAITING = 1 << 16
"""Number of characters after which text is written without waiting for `flush`."""


class EnduringOutput:
    """Writes whole lines of text to the file descriptor of `out`.

    While its disk is full, lines are left out; `warn` gets a sentence when that begins and when there is room again.
    Raises OSError for all other errors, such as a reader that has gone.
    """

    def __init__(self, out: TextIO, warn: Callable[[str], None]) -> None:
        self._descriptor = out.fileno()
        self._encoding = out.encoding
        self._errors = out.errors or "strict"
        self._warn = warn
        self._waiting: list[str] = []
        self._size = 0
        self._rest = b""
        """The end of a line of which the beginning is written."""
        self._missing = 0
        """Number of lines that were left out since the disk was full."""

    def write(self, text: str) -> int:
        self._waiting.append(text)
        self._size += len(text)
        if self._size > MOST_WAITING:
            self.flush()
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write what waits. Raises OSError, but not if the disk is full."""
        from kproxy.decoders.plurals import counted

        rest, self._rest = self._rest, b""
        data = rest + "".join(self._waiting).encode(self._encoding, self._errors)
        self._waiting, self._size = [], 0
        at = 0
        try:
            while at < len(data):
                at += os.write(self._descriptor, data[at:])
        except OSError as error:
            if error.errno not in OUTPUT_ERRORS:
                raise
            self._leave_out(data, at, error, begun=data[at - 1 : at] != b"\n" if at else bool(rest))
        else:
            if data and self._missing:
                missing, self._missing = self._missing, 0
                self._warn(f"standard output has room again; missing before this: {counted(missing, 'line', ',')}")

    def _leave_out(self, data: bytes, at: int, error: OSError, *, begun: bool) -> None:
        """Forget the lines from byte `at` on, but not the rest of a line whose beginning was written (`begun`)."""
        end = data.find(b"\n", at) + 1 or len(data)
        self._rest = data[at:end] if begun else b""
        lines = data.count(b"\n", end if begun else at)
        if not self._missing and lines:
            self._warn(f"standard output: {os.strerror(error.errno or 0)}; lines are left out, traffic goes on")
        self._missing += lines
