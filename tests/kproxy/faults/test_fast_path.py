"""The fast path changes nothing: with it, a connection under rules does what it does by the slow path alone."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kproxy.core import passing, plans
from kproxy.core.acting import ActedConnection
from kproxy.core.commands import Command, Record, ToBroker, ToClient
from kproxy.faults.parsing import parse
from tests.kproxy.core.frames import naming, request, response
from tests.kproxy.faults.support import Tale, beaten, beating, produced, producing
from tests.support.playbook import pieces
from tests.support.variants import each_variant_of

variants = each_variant_of(passing)

FIND_COORDINATOR, LIST_GROUPS = 10, 16
RULES = (
    "api == Heartbeat => delay 1s",
    "api == Heartbeat => error REBALANCE_IN_PROGRESS not applied",
    "api == Heartbeat => drop response",
    "api == Heartbeat => disconnect, nth 2",
    "api == ListGroups => duplicate request",
    "api == ListGroups => drop request",
)
LATER = parse("topic == t => drop response", "later")
KINDS = ("beat", "produce", "produce", "unacknowledged", "list", "find", "answer", "answer", "skip", "wait")
STEPS = st.tuples(
    st.sampled_from(KINDS),
    st.integers(0, 60),
    st.booleans(),
)

BEAT, ANSWER = ("beat", 0, False), ("answer", 0, False)


class SlowConnection(ActedConnection):
    """A connection whose bytes never take the fast path."""

    def _take_fast_path(self) -> None:
        return


class Log:
    """All that a connection does, step by step: the bytes that leave, what is recorded, all other commands."""

    def __init__(self, rules: Iterable[str], kind: type[ActedConnection], variant: ModuleType = passing) -> None:
        self.tale = Tale(*rules)
        story = self.tale.story
        parties = self.tale.acted._parties
        self.connection = story.connection = kind(
            story.shared, "127.0.0.1", self.tale.engine, parties, lambda: story.now
        )
        self.connection.passing = variant.Passing(self.tale.engine.plans, plans.unchanged)
        self.connection.passing.stopped = True
        self.steps: list[Any] = []
        self.late = [b"", b""]
        """Bytes that the client and the broker send together with their next frame."""
        self.fast = 0
        """Number of steps after which bytes could take the fast path."""

    def add(self, commands: list[Command]) -> None:
        parts: dict[str, bytes] = {}
        others = []
        for one in commands:
            name = type(one).__name__
            if isinstance(one, ToBroker | ToClient | Record) and not getattr(one, "comment", None):
                parts[name] = parts.get(name, b"") + bytes(one.data)
            else:
                others.append(one)
        self.steps.append((parts, others))
        self.fast += not self.connection.passing.stopped

    def client(self, data: bytes, cut: int) -> None:
        self.add([one for piece in self.arriving(0, data, cut) for one in self.connection.from_client(piece)])

    def broker(self, data: bytes, cut: int) -> None:
        self.add([one for piece in self.arriving(1, data, cut) for one in self.connection.from_broker(piece)])

    def arriving(self, side: int, data: bytes, cut: int) -> list[bytes]:
        """A frame in pieces of `cut` bytes; with an odd number, all after the first piece comes later."""
        data = self.late[side] + data
        end = cut if cut % 2 else len(data)
        self.late[side] = data[end:]
        return pieces(data[:end], cut)

    def result(self) -> tuple[Any, ...]:
        at = self.connection.passing
        self.add(self.connection.broker_ended())
        self.add(self.connection.client_ended())
        self.connection.dropped()
        assert self.tale.story.shared.budget.held == 0
        return self.steps, self.tale.hits, self.tale.said, at.requests, at.responses


def run(
    steps: list[tuple[str, int, bool]],
    rules: list[str],
    kind: type[ActedConnection],
    variant: ModuleType = passing,
    added: int = 0,
    removed: int = 0,
) -> Log:
    """Feeds a connection; at the step `added` one more rule is added, at the step `removed` the first is removed."""
    log = Log(rules, kind, variant)
    waiting: list[bytes] = []
    """The broker's responses that are still to come."""
    for number, (step, cut, twice) in enumerate(steps, 1):
        correlation_id = number // 2 if twice else 100 + number
        if number == added:
            log.tale.engine.add((LATER,))
        elif number == removed and rules:
            log.tale.engine.remove("rule-1")
        if step == "beat":
            log.client(beating(correlation_id), cut)
            waiting.append(beaten(correlation_id))
        elif step == "produce":
            log.client(producing(correlation_id), cut)
            waiting.append(produced(correlation_id))
        elif step == "unacknowledged":
            log.client(producing(correlation_id, acks=0), cut)
        elif step == "list":
            log.client(request(LIST_GROUPS, 0, correlation_id), cut)
            waiting.append(response(LIST_GROUPS, 0, correlation_id, {}))
        elif step == "find":
            log.client(request(FIND_COORDINATOR, 0, correlation_id), cut)
            waiting.append(naming(FIND_COORDINATOR, 0, correlation_id, [(5, "kafka", 9092)]))
        elif step == "wait":
            log.tale.story.now += cut / 10
            log.add(log.connection.tick())
        elif step == "skip":
            del waiting[:1]
        elif waiting:
            log.broker(waiting.pop(0), cut)
    return log


@variants
@settings(max_examples=400, deadline=None)
@given(
    steps=st.lists(STEPS, max_size=30),
    rules=st.lists(st.sampled_from(RULES), unique=True, max_size=3),
    added=st.integers(0, 40),
    removed=st.integers(0, 40),
)
@example(
    [("beat", 0, False), ("answer", 0, False), *[("beat", 0, False)] * 2, *[("answer", 0, False)] * 2], [RULES[2]], 0, 4
)
def test_the_fast_path_does_what_the_slow_path_does(
    variant: ModuleType, steps: list[tuple[str, int, bool]], rules: list[str], added: int, removed: int
) -> None:
    fast, slow = (run(steps, rules, kind, variant, added, removed) for kind in (ActedConnection, SlowConnection))
    assert fast.result() == slow.result()


def test_frames_of_other_apis_take_the_fast_path() -> None:
    log = run([("produce", 0, False), ("answer", 0, False)] * 20, [RULES[0]], ActedConnection)
    assert log.fast > 35


def test_the_fast_path_resumes_with_requests_in_flight() -> None:
    steps = [("produce", 0, False), ("answer", 0, False), ("produce", 0, False), ("beat", 0, False)]
    log = run([*steps, ("answer", 0, False), ("answer", 0, False)], [RULES[2]], ActedConnection)
    before = log.fast
    assert log.connection.passing.stopped is False
    log.client(producing(500), 0)
    log.client(producing(501), 0)
    log.broker(produced(500), 0)
    assert log.fast == before + 3


def test_a_request_that_is_answered_before_it_is_whole_gets_no_second_answer() -> None:
    log = run([("beat", 13, False), ("answer", 0, False), ("beat", 0, False)], [RULES[1]], SlowConnection)
    assert log.tale.hits == [2]
    assert [parts.get("ToClient", b"") for parts, _ in log.steps] == [b"", beaten(101), beaten(103, 27)]
