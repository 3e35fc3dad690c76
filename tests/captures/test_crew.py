"""Worker processes that answer messages of any size, whether or not they survive."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from kproxy.captures.crew import Crew
from kproxy.captures.pipes import Lost
from tests.support.descriptors import many_open

Made = Callable[..., Crew]
LARGE = bytes(5 << 20)
"""More bytes than a pipe holds."""


@pytest.fixture
def crew_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    crews: list[Crew] = []
    forked: list[int] = []
    fork = os.fork

    def counted() -> int:
        pid = fork()
        forked.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", counted)

    def made(answer: Callable[[bytes], bytes], jobs: int, **options: int) -> Crew:
        crews.append(Crew(lambda message: [answer(bytes(message))], jobs, **options))
        return crews[-1]

    yield made
    for crew in crews:
        crew.close()
    for pid in forked:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def answers(crew: Crew, messages: list[bytes]) -> list[bytes]:
    replies = chain(chain.from_iterable(map(crew.deal, messages)), crew.rest())
    return [b"".join(reply) for reply in replies]


@pytest.mark.parametrize("jobs", [1, 3])
def test_answers_come_in_the_order_of_the_messages(jobs: int, crew_of: Made) -> None:
    here = os.getpid()
    crew = crew_of(lambda message: message * 2 + bytes(os.getpid() != here), jobs)
    messages = [str(number).encode() for number in range(50)] + [b""]
    assert answers(crew, messages) == [message * 2 + b"\0" for message in messages]
    assert answers(crew, [b"again"]) == [b"againagain\0"]


@pytest.mark.timeout(60)
def test_neither_side_waits_for_ever_where_both_have_much_to_say(crew_of: Made) -> None:
    crew = crew_of(lambda message: message + b"!", 2)
    assert answers(crew, [LARGE] * 9) == [LARGE + b"!"] * 9


@pytest.mark.parametrize("shared", [0, 1, 7, 10, 1 << 20])
def test_replies_pass_through_shared_memory_as_far_as_they_fit(shared: int) -> None:
    crew = Crew(lambda message: [message[:3], b"", message[3:], b"end"], 2, ahead=3, shared=shared)
    messages = [str(number).encode() * 5 for number in range(40)] + [LARGE]
    replies = chain(chain.from_iterable(map(crew.deal, messages)), crew.rest())
    for message, reply in zip(messages, replies, strict=True):
        in_memory = sum(len(part) for part in reply if isinstance(part, memoryview))
        assert b"".join(reply) == message + b"end"
        assert in_memory <= shared
        if shared >= len(message) + 3:
            assert in_memory == len(message) + 3
    crew.close()


def test_an_interrupt_while_processes_are_begun_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    fork = os.fork

    def interrupted() -> int:
        pid = fork()
        if pid:
            begun.append(pid)
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # pytest-xdist's thread would take a process's
        return pid

    monkeypatch.setattr(os, "fork", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            Crew(lambda message: [message], 2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(begun) == 2
    for pid in begun:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


@pytest.mark.parametrize("message", [b"a", LARGE])
def test_a_process_that_died_is_told_of(message: bytes, crew_of: Made) -> None:
    def answer(message: bytes) -> bytes:
        if message.endswith(b"x"):
            os.kill(os.getpid(), signal.SIGKILL)
        return message

    crew = crew_of(answer, 2)
    with pytest.raises(Lost, match="was ended by signal 9"):
        answers(crew, [message, message + b"x"] + [message] * 6)


def test_a_process_that_fails_has_died(crew_of: Made) -> None:
    crew = crew_of(lambda message: bytes([1 // len(message)]), 2)
    with pytest.raises(Lost, match="ended with 1"):
        answers(crew, [b"a", b"", b"c"])


def test_nobody_waits_for_one_who_is_slow(crew_of: Made) -> None:
    """Meanwhile the other processes answer as many messages as they may be ahead."""
    (waiting, ready), here = os.pipe(), os.getpid()

    def answer(message: bytes) -> bytes:
        if message == b"wait":
            os.read(waiting, 1)
        elif message == b"last":
            os.write(ready, b".")
        return message + bytes(os.getpid() != here)

    messages = [b"wait", LARGE, b"a", LARGE, b"b", LARGE, b"c", b"last"]
    assert answers(crew_of(answer, 2, ahead=4), messages) == [message + b"\0" for message in messages]
    os.close(waiting)
    os.close(ready)


def test_captures_may_be_many_open_files(crew_of: Made) -> None:
    with many_open():
        assert answers(crew_of(lambda message: message * 2, 2), [b"a", LARGE, b"b"]) == [b"aa", LARGE * 2, b"bb"]


def test_where_no_process_can_be_begun_those_that_were_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    fork = os.fork

    def forked() -> int:
        if begun:
            raise BlockingIOError
        if pid := fork():
            begun.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", forked)
    before = len(list(Path("/dev/fd").iterdir()))
    with pytest.raises(Lost):
        Crew(lambda message: [message], 2)
    assert len(list(Path("/dev/fd").iterdir())) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(begun[0], os.WNOHANG)
