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
import signal
import struct
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NoReturn

from kproxy.captures.pipes import ready

_PIPE: Final = 1 << 20
"""Bytes that a pipe should hold, where the system allows: then nobody waits for who writes or reads."""
_LENGTH: Final = struct.Struct("=Q")


class Lost(Exception):  # noqa: N818
    """A process has died before it answered, or could not be begun."""


class Crew:
    """`jobs` processes, forked at once, in each of which `answer` makes replies of messages.

    They are dealt messages in turn; each has `ahead` at most that it has not answered. Makes no thread, and minds none
    that only wait. Raises Lost where the system allows no more processes or pipes.
    """

    def __init__(self, answer: Callable[[bytes], bytes], jobs: int, *, ahead: int = 2) -> None:
        self._answer = answer
        self._ahead = ahead
        self._dealt = self._replied = 0
        self._members: list[_Member] = []
        try:
            for _ in range(jobs):
                self._members.append(self._forked())
        except OSError:
            self.close()
            raise Lost from None

    def __len__(self) -> int:
        """Processes."""
        return len(self._members)

    def deal(self, message: bytes) -> Iterator[bytes]:
        """Give a message to the process whose turn it is; yields answers: those that are there, and those that have to
        make room for it. Raises Lost where an answer will never come.
        """
        self._exchange(wait=False)
        while self._dealt > self._replied:
            member = self._turn(self._replied)
            if not member.answered and self._dealt - self._replied < self._ahead * len(self._members):
                break
            yield self._reply(member)
        self._turn(self._dealt).unsent.append(memoryview(_LENGTH.pack(len(message)) + message))
        self._dealt += 1

    def rest(self) -> Iterator[bytes]:
        """The answers to all messages that have none yet. Raises Lost as `deal`."""
        while self._dealt > self._replied:
            yield self._reply(self._turn(self._replied))

    def close(self) -> None:
        """End the processes, whatever they do."""
        members, self._members = self._members, []
        for member in members:
            member.end()

    def _turn(self, number: int) -> _Member:
        """Whose message a message is."""
        return self._members[number % len(self._members)]

    def _reply(self, member: _Member) -> bytes:
        while not member.answered:
            if member.lost:
                raise Lost
            self._exchange(wait=True)
        self._replied += 1
        return member.reply()

    def _exchange(self, *, wait: bool) -> None:
        """Send and receive what can be, with all processes at once, so that no two wait for each other for ever."""
        talking = [member for member in self._members if not member.lost]
        replies = {member.replies: member for member in talking}
        asks = {member.asks: member for member in talking if member.unsent}
        for end in ready(list(replies), list(asks), wait=wait):
            if end in asks:
                asks[end].send()
            else:
                replies[end].receive()

    def _forked(self) -> _Member:
        with contextlib.ExitStack() as opened:
            pipes = [os.pipe(), os.pipe()]
            for end in chain(*pipes):
                opened.callback(os.close, end)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which only wait
                pid = os.fork()
            opened.pop_all()
        (asked, asks), (replies, replied) = pipes
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
    unsent: deque[memoryview] = field(default_factory=deque)
    received: bytearray = field(default_factory=bytearray)
    lost: bool = False

    @property
    def ends(self) -> tuple[int, int]:
        return self.asks, self.replies

    def send(self) -> None:
        """Send as much as the pipe takes."""
        try:
            while self.unsent:
                sent = os.write(self.asks, self.unsent[0])
                if sent == len(self.unsent[0]):
                    self.unsent.popleft()
                else:
                    self.unsent[0] = self.unsent[0][sent:]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.unsent.clear()  # its replies end where it died

    def receive(self) -> None:
        """Take what the pipe has, of which there is something."""
        piece = os.read(self.replies, _PIPE)
        self.received += piece
        self.lost = not piece

    @property
    def answered(self) -> bool:
        """A whole reply is there."""
        return len(self.received) >= _LENGTH.size and len(self.received) >= _LENGTH.size + self._length

    def reply(self) -> bytes:
        """The next reply, which is there."""
        end = _LENGTH.size + self._length
        reply = bytes(memoryview(self.received)[_LENGTH.size : end])
        del self.received[:end]
        return reply

    @property
    def _length(self) -> int:
        length: int = _LENGTH.unpack_from(self.received)[0]
        return length

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
