"""Forked processes that answer messages; the answers come in the order of the messages.

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
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NoReturn

from kproxy.captures.pipes import LENGTH, SIZE, Lost, enlarge, framed, ready, receive, send
from kproxy.captures.processes import kill


class Crew:
    """`jobs` processes, forked immediately, which call `answer` to make the reply to each message.

    Messages go to the processes in turn; each process has at most `ahead` unanswered messages. Starts no threads;
    threads that only wait do no harm. Raises Lost if the system allows no more processes or pipes.
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
        """The number of processes."""
        return len(self._members)

    def deal(self, message: bytes) -> Iterator[bytes]:
        """Send a message to the process whose turn it is; yields the answers that are ready.

        Waits for answers until the number of unanswered messages is within its bound. Raises Lost if a process died.
        """
        self._exchange(wait=False)
        while self._dealt > self._replied:
            member = self._turn(self._replied)
            if not member.answered and self._dealt - self._replied < self._ahead * len(self._members):
                break
            yield self._reply(member)
        self._turn(self._dealt).unsent.append(framed(message))
        self._dealt += 1

    def rest(self) -> Iterator[bytes]:
        """The answers to all unanswered messages. Raises Lost if a process died."""
        while self._dealt > self._replied:
            yield self._reply(self._turn(self._replied))

    def close(self) -> None:
        """Kill the processes, even if they are busy."""
        members, self._members = self._members, []
        for member in members:
            member.end()

    def _turn(self, number: int) -> _Member:
        """The process that message `number` belongs to."""
        return self._members[number % len(self._members)]

    def _reply(self, member: _Member) -> bytes:
        while not member.answered:
            if member.lost:
                raise Lost
            self._exchange(wait=True)
        self._replied += 1
        return member.reply()

    def _exchange(self, *, wait: bool) -> None:
        """Send to and receive from all processes as far as possible without blocking, which avoids deadlocks."""
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
                warnings.simplefilter("ignore", DeprecationWarning)  # it warns of threads; ours only wait
                pid = os.fork()
            opened.pop_all()
        (asked, asks), (replies, replied) = pipes
        if not pid:
            # A pipe reaches its end once no process holds its writing end, so other members must not inherit one.
            for end in (asks, replies, *(end for member in self._members for end in member.ends)):
                os.close(end)
            _serve(self._answer, asked, replied)
        os.close(asked)
        os.close(replied)
        os.set_blocking(asks, False)
        enlarge(asks)
        enlarge(replies)
        return _Member(pid, asks, replies)


@dataclass(slots=True)
class _Member:
    """The parent's view of a process: one pipe for its messages, one for its replies."""

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
            self.unsent.clear()  # it died: `receive` will find the end of its replies

    def receive(self) -> None:
        """Read from the pipe, which must be readable."""
        piece = os.read(self.replies, SIZE)
        self.received += piece
        self.lost = not piece

    @property
    def answered(self) -> bool:
        """Whether a whole reply was received."""
        return len(self.received) >= LENGTH.size and len(self.received) >= LENGTH.size + self._length

    def reply(self) -> bytes:
        """The next reply; `answered` must be true."""
        end = LENGTH.size + self._length
        reply = bytes(memoryview(self.received)[LENGTH.size : end])
        del self.received[:end]
        return reply

    @property
    def _length(self) -> int:
        length: int = LENGTH.unpack_from(self.received)[0]
        return length

    def end(self) -> None:
        for end in self.ends:
            os.close(end)
        kill(self.pid)


def _serve(answer: Callable[[bytes], bytes], asked: int, replied: int) -> NoReturn:
    """Answer messages until the pipe ends, then end this process."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends this process
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        gc.freeze()  # garbage collection would write to inherited objects, and so copy their pages
        while True:
            send(replied, answer(receive(asked)))
    finally:
        os._exit(0)
