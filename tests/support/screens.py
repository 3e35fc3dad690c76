"""A terminal for a program under test; it is not the controlling one, so no SIGHUP announces its end."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from tests.support.patience import SECONDS

ESCAPES = re.compile(rb"\x1b(?:\[[0-9;?<>=$]*[@-~]|[()].|[=>78M])")


class Painted:
    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], size: tuple[int, int] = (100, 30)
    ) -> None:
        self._master, slave = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(slave)
        # these hold the size of the terminal that runs the tests
        env = {name: value for name, value in environment.items() if name not in {"COLUMNS", "LINES"}}
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
        )
        os.close(slave)
        self.seen = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.hang_up()

    @property
    def text(self) -> str:
        """The text painted since the last key, in the order of painting."""
        return ESCAPES.sub(b"", self.seen).decode("utf-8", "replace")

    @property
    def attributes(self) -> list[object]:
        """The terminal's attributes (termios), without its queues."""
        return list(termios.tcgetattr(self._master))

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, seconds: float = 0.1) -> bool:
        """Read what is painted within some seconds; False once the program has closed the terminal."""
        if select.select([self._master], [], [], seconds)[0]:
            try:
                self.seen += os.read(self._master, 1 << 16)
            except OSError:
                return False
        return True

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + SECONDS
        while text not in self.text:
            assert self.read() or text in self.text, f"it ended: {self.text[-2000:]}"
            assert time.monotonic() < deadline, self.text[-3000:]

    def press(self, keys: str | bytes) -> None:
        """Send keys, or any bytes, in one burst."""
        self.seen = b""
        os.write(self._master, keys.encode() if isinstance(keys, str) else keys)

    def hang_up(self) -> None:
        if self._master >= 0:
            os.close(self._master)
        self._master = -1

    def end(self) -> int:
        """Wait for the end of the program; its exit code."""
        deadline = time.monotonic() + SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "it does not end"
            if self._master < 0 or not self.read():
                time.sleep(0.02)
        if self._master >= 0:
            while self.read(0) and select.select([self._master], [], [], 0)[0]:
                pass
        return self.process.wait()
