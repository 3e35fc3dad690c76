"""Compresses the complete segments of a ring, in a process of its own with the lowest priority.

    python -m kproxy.recording.compressing

The process reads one path per line from standard input and replaces each file by `PATH.zst`. A file that cannot be
compressed stays as it is. The process ends when its standard input ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import zstandard

from kproxy.captures import private
from kproxy.captures.processes import name_process
from kproxy.captures.ring import PACKED

LEVEL = 3


class Compressor:
    """Starts the compressing process; call the object with a path to compress that file.

    The process finishes its queue even if its parent process is gone.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kproxy.recording.compressing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None  # noqa: S101 (asked for above)
        self._paths = self._process.stdin
        os.set_blocking(self._paths.fileno(), False)

    def __call__(self, path: Path) -> None:
        """Queues a complete file without waiting.

        If the process does not accept the path, the file stays uncompressed.
        """
        with contextlib.suppress(OSError, ValueError):
            os.write(self._paths.fileno(), os.fsencode(path) + b"\n")

    def close(self) -> None:
        """Closes the queue; the process ends once it has compressed all queued files."""
        with contextlib.suppress(OSError):
            self._paths.close()

    def wait(self, seconds: float) -> None:
        """Waits up to `seconds` until all queued files are compressed. Raises subprocess.TimeoutExpired."""
        self._process.wait(seconds)


def compress(path: Path) -> None:
    """Replaces `path` by `path`.zst. Raises OSError, also if `path` is gone; `path` is unchanged then."""
    packed = path.with_name(path.name + PACKED)
    beside = packed.with_name(packed.name + ".new")
    try:
        with path.open("rb") as source, private.output(beside) as to:
            size = os.fstat(source.fileno()).st_size
            zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).copy_stream(source, to, size=size)
        shutil.copystat(path, beside)  # raises if the ring has deleted the segment meanwhile
        beside.replace(packed)
    finally:
        beside.unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def main() -> None:
    os.nice(19)
    for line in sys.stdin.buffer:
        with contextlib.suppress(OSError, zstandard.ZstdError):
            compress(Path(os.fsdecode(line.rstrip(b"\n"))))


if __name__ == "__main__":
    name_process("zstd")
    main()
