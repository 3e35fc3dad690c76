"""Forked processes that answer messages; the answers come in the order in which the messages were dealt.

crew = Crew(answer, jobs=3)
for message in messages:
for reply in crew.deal(message):
...
for reply in crew.rest():
...
crew.close()
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import struct
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn

AHEAD: Final = 2
"""Messages that a process has been dealt at most: one at work, one waiting."""
_PIPE: Final = 1 << 20
"""Bytes that a pipe should hold, where the system allows: then nobody waits for who writes or reads."""
_LENGTH: Final = struct.Struct("=Q")


class Crew:
    """`jobs` processes, forked at once, in each of which `answer` makes replies of messages.

    What a process that has died left unanswered is answered by this process: what goes wrong is then raised here.
    Makes no thread, and minds none that only wait.
    """

    def __init__(self, answer: Callable[[bytes], bytes], jobs: int) -> None:
        self._answer = answer
        self._open: deque[bytes] = deque()
        """Messages without an answer yet, in order."""
        self._dealt = 0
        self._members: list[_Member] = []
        for _ in range(jobs):
            self._members.append(self._forked())

    def __len__(self) -> int:
        """Processes."""
        return len(self._members)

    def deal(self, message: bytes) -> Iterator[bytes]:
        """Give a message to the process whose turn it is; yields answers that have to make room for it."""
        while len(self._open) >= AHEAD * len(self._members):
            yield self._reply()
        self._members[self._dealt % len(self._members)].send(_LENGTH.pack(len(message)) + message)
        self._dealt += 1
        self._open.append(message)

    def rest(self) -> Iterator[bytes]:
        """The answers to all messages that have none yet."""
        while self._open:
            yield self._reply()

    def close(self) -> None:
        """End the processes, whatever they do."""
        members, self._members = self._members, []
        for member in members:
            member.end()

    def _reply(self) -> bytes:
        member = self._members[(self._dealt - len(self._open)) % len(self._members)]
        reply = member.receive()
        message = self._open.popleft()
        return self._answer(message) if reply is None else reply

    def _forked(self) -> _Member:
        (asked, asks), (replies, replied) = os.pipe(), os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which only wait
            pid = os.fork()
        if not pid:
            # A pipe ends with the process that writes to it, so no other one may hold it open.
            for end in (asks, replies, *(end for member in self._members for end in member.ends)):
                os.close(end)
            _serve(self._answer, asked, replied)
        os.close(asked)
        os.close(replied)
        os.set_blocking(asks, False)
        with contextlib.suppress(ImportError, AttributeError, OSError):
            import fcntl

            for end in (asks, replies):
                fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE)
        return _Member(pid, asks, replies)


@dataclass(slots=True)
class _Member:
    """A process, as the one that forked it sees it: its messages go into one pipe, its replies come from another."""

    pid: int
    asks: int
    replies: int
    received: bytearray = field(default_factory=bytearray)
    lost: bool = False

    @property
    def ends(self) -> tuple[int, int]:
        return self.asks, self.replies

    def send(self, message: bytes) -> None:
        """Send while replies are taken, so that neither side waits for the other for ever."""
        rest = memoryview(message)
        while rest and not self.lost:
            readable, writable, _ = select.select([self.replies], [self.asks], [])
            if readable:
                self._take()
            if writable:
                try:
                    rest = rest[os.write(self.asks, rest) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    return  # its replies end where it died

    def receive(self) -> bytes | None:
        """The next reply; None where the process died before."""
        while len(self.received) < _LENGTH.size or len(self.received) < _LENGTH.size + self._length:
            if self.lost:
                return None
            self._take()
        end = _LENGTH.size + self._length
        reply = bytes(memoryview(self.received)[_LENGTH.size : end])
        del self.received[:end]
        return reply

    @property
    def _length(self) -> int:
        length: int = _LENGTH.unpack_from(self.received)[0]
        return length

    def _take(self) -> None:
        piece = os.read(self.replies, _PIPE)
        self.received += piece
        self.lost = not piece

    def end(self) -> None:
        for end in self.ends:
            os.close(end)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _serve(answer: Callable[[bytes], bytes], asked: int, replied: int) -> NoReturn:
    """Answer until there are no more messages, then end this process."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # who forked this process gets it too, and ends this one
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        gc.freeze()  # who looks for garbage in what is inherited, copies it
        while head := _exactly(asked, _LENGTH.size):
            reply = answer(_exactly(asked, _LENGTH.unpack(head)[0]))
            rest = memoryview(_LENGTH.pack(len(reply)) + reply)
            while rest:
                rest = rest[os.write(replied, rest) :]
    finally:
        os._exit(0)


def _exactly(pipe: int, size: int) -> bytes:
    """So many bytes, or none where the pipe ends before."""
    data = bytearray()
    while len(data) < size:
        piece = os.read(pipe, min(size - len(data), _PIPE))
        if not piece:
            return b""
        data += piece
    return bytes(data)
