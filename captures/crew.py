"""Forked processes that answer messages; the replies come in the order of the messages.

crew = Crew(answer, jobs=3)
for message in messages:
    for reply in crew.deal(message):
        ...
for reply in crew.rest():
    ...
crew.close()
"""

from __future__ import annotations

import gc
import mmap
import os
import signal
import warnings
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, cycle, pairwise
from typing import Final, NoReturn, TypeAlias

from kproxy.captures.pipes import Incoming, Lost, enlarge, framed, ready, receive, send
from kproxy.captures.processes import kill

Part: TypeAlias = bytes | bytearray | memoryview
Answer: TypeAlias = Callable[[bytearray], Iterable[Part]]
"""A function that takes a message and gives the parts of the reply to it."""
Reply: TypeAlias = Sequence[Part]
"""The parts of a reply, in order."""
_END: Final = b""
"""An empty frame, which marks the end of a reply."""


class Crew:
    """`jobs` processes, forked immediately, which call `answer` to make the reply to each message.

    Messages go to the processes in turn; each process has at most `ahead` unanswered messages. The first `shared` bytes
    of a reply are in shared memory, which is faster than a pipe; a later reply overwrites them, so use each reply
    before asking for the next one. A crew starts no threads; other threads of the process must be idle while it forks.
    Raises Lost if the system allows no more processes or pipes.
    """

    def __init__(self, answer: Answer, jobs: int, *, ahead: int = 2, shared: int = 0) -> None:
        self._answer = answer
        self._ahead = ahead
        self._shared = shared
        self._dealt = self._replied = 0
        self._members: list[_Member] = []
        with ExitStack() as undo:
            undo.callback(self.close)
            try:
                with _no_interrupts():
                    for _ in range(jobs):
                        self._members.append(self._forked())
            except OSError as error:
                raise Lost(f"could not be started: {error.strerror}") from None
            undo.pop_all()

    def __len__(self) -> int:
        """The number of processes."""
        return len(self._members)

    def deal(self, message: bytes) -> Iterator[Reply]:
        """Send a message to the next process in turn; yields the replies to earlier messages that are ready.

        Waits for replies while all processes together have their maximum of unanswered messages. Raises Lost if a
        process died.
        """
        self._exchange(wait=False)
        while self._dealt > self._replied:
            member = self._turn(self._replied)
            if not member.replies and self._dealt - self._replied < self._ahead * len(self._members):
                break
            yield self._reply(member)
        self._turn(self._dealt).unsent.append(framed(message))
        self._dealt += 1

    def rest(self) -> Iterator[Reply]:
        """The replies to all unanswered messages. Raises Lost if a process died."""
        while self._dealt > self._replied:
            yield self._reply(self._turn(self._replied))

    def close(self) -> None:
        """Kill the processes, even if they are busy."""
        members, self._members = self._members, []
        for member in members:
            member.close()
            kill(member.pid)

    def _turn(self, number: int) -> _Member:
        """The process that gets the message with this number, counted from 0."""
        return self._members[number % len(self._members)]

    def _reply(self, member: _Member) -> Reply:
        while not member.replies:
            if member.lost:
                self._members.remove(member)
                raise Lost(member.ended())
            self._exchange(wait=True)
        self._replied += 1
        return member.replies.popleft()

    def _exchange(self, *, wait: bool) -> None:
        """Write to all pipes what they accept and read from them what they hold; doing both together avoids deadlocks.

        With `wait`, blocks until at least one pipe is ready.
        """
        talking = [member for member in self._members if not member.lost]
        answers = {member.answers: member for member in talking}
        asks = {member.asks: member for member in talking if member.unsent}
        for end in ready(list(answers), list(asks), wait=wait):
            if end in asks:
                asks[end].send()
            else:
                answers[end].receive()

    def _forked(self) -> _Member:
        slots = _slots(self._shared, self._ahead)
        with ExitStack() as opened:
            pipes = [os.pipe(), os.pipe()]
            for end in chain(*pipes):
                opened.callback(os.close, end)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # threads of ours only wait
                pid = os.fork()
            opened.pop_all()
        (asked, asks), (answers, answered) = pipes
        if not pid:
            # A read pipe ends once no process holds its write end, so a new process closes the write ends that it
            # inherits.
            for end in (asks, answers, *(end for member in self._members for end in member.ends)):
                os.close(end)
            _serve(self._answer, asked, answered, slots)
        os.close(asked)
        os.close(answered)
        for end in (asks, answers):
            os.set_blocking(end, False)
            enlarge(end)
        return _Member(pid, asks, answers, slots)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Hold back SIGINT (Ctrl-C) until each new process ignores it and is in the list of processes."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _slots(size: int, count: int) -> Iterator[memoryview]:
    """Endless cycle of `count` slots of shared memory, each of `size` bytes and for one reply."""
    memory = memoryview(mmap.mmap(-1, size * count) if size else b"")
    return cycle([memory[size * slot : size * (slot + 1)] for slot in range(count)])


class _Member:
    """The parent's view of a forked process: a pipe for messages; a pipe and shared memory for replies."""

    def __init__(self, pid: int, asks: int, answers: int, slots: Iterator[memoryview]) -> None:
        self.pid, self.asks, self.answers = pid, asks, answers
        self.unsent: deque[memoryview] = deque()
        self.replies: deque[Reply] = deque()
        self.lost = False
        self._slots = slots
        self._incoming = Incoming(answers)
        self._frames: list[bytearray] = []
        """The frames of an incomplete reply."""

    @property
    def ends(self) -> tuple[int, int]:
        return self.asks, self.answers

    def send(self) -> None:
        """Write as many bytes of the unsent messages as the pipe takes without blocking."""
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
            self.unsent.clear()  # the process died: `receive` will find the end of its replies

    def receive(self) -> None:
        """Read from the pipe without blocking and append the complete replies to `replies`; sets `lost` if the process
        died.
        """
        try:
            while True:
                frame = self._incoming.next()
                if frame:
                    self._frames.append(frame)
                else:
                    self.replies.append(_reply(self._frames, next(self._slots)))
                    self._frames = []
        except BlockingIOError:
            return
        except Lost:
            self.lost = True

    def close(self) -> None:
        for end in self.ends:
            os.close(end)

    def ended(self) -> str:
        """How a lost process ended, in words: with which exit code or by which signal."""
        self.close()
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return f"was ended by signal {-code}" if code < 0 else f"ended with {code}"


def _serve(answer: Answer, asked: int, answered: int, slots: Iterator[memoryview]) -> NoReturn:
    """Answer each message from the pipe `asked` through the pipe `answered`; when `asked` ends, end this process."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets the signal too, and ends this process
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        gc.freeze()  # garbage collection would write to inherited objects, and so copy their pages
        while True:
            _send(answered, answer(receive(asked)), next(slots))
    finally:
        os._exit(1)


def _send(pipe: int, parts: Iterable[Part], slot: memoryview) -> None:
    """Send a reply: its first parts, as far as they fit, go to the slot of shared memory, the other parts through the
    pipe.

    Frames in the pipe: the ends of the parts in the slot (64-bit numbers, the first is 0), each other part, an empty
    frame.
    """
    ends = array("q", [0])
    others = iter(parts)
    for part in others:
        end = ends[-1] + len(part)
        if end > len(slot):
            others = chain([part], others)
            break
        slot[ends[-1] : end] = part
        ends.append(end)
    send(pipe, ends.tobytes())
    for part in others:
        if part:
            send(pipe, part)
    send(pipe, _END)


def _reply(frames: Sequence[bytearray], slot: memoryview) -> Reply:
    """The parts of a reply, from the frames and the slot that `_send` wrote."""
    ends, *others = frames
    return [*(slot[start:end] for start, end in pairwise(array("q", ends))), *others]
