"""Processes that answer messages, whatever their size and whatever becomes of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from captures.crew import Crew

Made = Callable[[Callable[[bytes], bytes], int], Crew]
LARGE = bytes(5 << 20)
"""More than pipes hold."""


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

    def made(answer: Callable[[bytes], bytes], jobs: int) -> Crew:
        crews.append(Crew(answer, jobs))
        return crews[-1]

    yield made
    for crew in crews:
        crew.close()
    for pid in forked:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def answers(crew: Crew, messages: list[bytes]) -> list[bytes]:
    return [reply for message in messages for reply in crew.deal(message)] + list(crew.rest())


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


@pytest.mark.parametrize("message", [b"a", LARGE])
def test_what_a_dead_process_left_is_answered_here(message: bytes, crew_of: Made) -> None:
    here = os.getpid()

    def answer(message: bytes) -> bytes:
        if os.getpid() != here and message.endswith(b"x"):
            os.kill(os.getpid(), signal.SIGKILL)
        return b"here" if os.getpid() == here else b"there"

    crew = crew_of(answer, 2)
    assert answers(crew, [message, message + b"x"] + [message] * 6) == [b"there", b"here"] * 4


def test_what_goes_wrong_in_a_process_is_raised_here(crew_of: Made) -> None:
    crew = crew_of(lambda message: bytes([1 // len(message)]), 2)
    with pytest.raises(ZeroDivisionError):
        answers(crew, [b"a", b"", b"c"])
