"""Answers made to stop the relay, whole: what another cluster's clients, memory and descriptors make of them.

Seconds are those after which something counts as hanging: how long others wait is measured, not asserted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kproxy.runs.launcher import RelayProcess
from kproxy.runs.settings import Cluster, Settings, upstream
from tests.kproxy.support import places
from tests.kproxy.test_limits import limited_popen
from tests.support import hostile
from tests.support.brokers import free_ports

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

MOST_MEMORY = 128 << 20
"""That an attack may add."""
Nodes = list[tuple[int, bytes, int]]


@dataclass
class Scene:
    """A relay of two clusters, an honest client of each, and the broker that lies to others of the first."""

    relay: RelayProcess
    liar: hostile.Broker
    honest: tuple[hostile.Waiting, hostile.Waiting]
    taken: hostile.Taken
    memory: int

    def ask(self, times: int = 1) -> list[bytes]:
        """What a client gets that asks for Metadata so often; b"" where the connection is ended."""
        with hostile.connect(self.relay.clusters["east"]) as client:
            got = []
            for number in range(times):
                client.sendall(hostile.request(hostile.METADATA, hostile.METADATA_VERSION, number))
                got.append(hostile.frame(client))
            return got

    def check(self, listeners: int) -> None:
        """The others go on, and what the relay has taken is within bounds."""
        for one in self.honest:
            one.await_answers()
        assert self.taken.memory < self.memory + MOST_MEMORY
        assert self.taken.listeners <= listeners + 2
        assert self.relay.command("status")["responses"]["leaked"] == 0

    def lie(self, nodes: Callable[[int], Nodes], more: bytes = b"") -> None:
        """The answers to Metadata from now on, by correlation id."""

        def answer(api_key: int, version: int, correlation_id: int) -> Iterable[bytes]:
            if api_key != hostile.METADATA:
                return hostile.echo(api_key, version, correlation_id)
            return (hostile.metadata(correlation_id, nodes(correlation_id), more),)

        self.liar.answer = answer


@contextlib.contextmanager
def scene(memory_max: int = 256 << 20) -> Iterator[Scene]:
    with hostile.Broker() as honest, hostile.Broker() as liar:
        ports = free_ports(2)
        given = Settings(
            upstream=upstream(liar.address),
            listen_port=ports[0],
            probe=False,
            scratch=16 << 20,
            name="east",
            more=(Cluster("west", upstream(honest.address), "127.0.0.1", ports[1]),),
            memory_max=memory_max,
        )
        with RelayProcess(given) as relay, contextlib.ExitStack() as clients:
            waiting = []
            for name in ("east", "west"):
                waiting.append(hostile.Waiting(relay.clusters[name]))
                clients.callback(waiting[-1].close)
                waiting[-1].await_answers()
            taken = hostile.Taken(relay.pid)
            yield Scene(relay, liar, (waiting[0], waiting[1]), taken, taken.memory)
            assert relay.command("stop") == {"stopping": True}
            relay._process.wait(hostile.SECONDS)


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    places(monkeypatch, tmp_path)


def many(count: int) -> Nodes:
    return [(number, b"b%d" % number, 9092) for number in range(count)]


def ours(answer: bytes) -> int:
    """How many nodes an answer names; none may have another host than the proxy's."""
    told = hostile.told(answer)
    assert {host for host, _ in told.values()} == {b"127.0.0.1"}
    return len(told)


@pytest.mark.parametrize("count", [300, 900, 5000])
def test_many_nodes_are_served_up_to_the_bound(count: int) -> None:
    with scene() as at:
        at.lie(lambda _: many(count))
        for answer in at.ask(3):
            assert ours(answer) == count
        at.check(min(count, 1000))
        status = at.relay.command("status")
        assert len(status["brokers"]) == min(count, 1000)
        unserved = [topic for topic in status["warnings"] if "/listeners-" in topic]
        assert unserved == (["east/listeners-bound"] if count > 1000 else [])


def test_a_million_nodes_end_the_connection_and_nothing_else() -> None:
    with scene() as at:
        answer = hostile.metadata(0, many(1_000_000))
        at.liar.answer = lambda *asked: (answer,) if asked[0] == hostile.METADATA else hostile.echo(*asked)
        assert at.ask() == [b""]
        at.check(0)
        messages = at.relay.command("status")["messages"]
        wanted = "the response has 1,000,000 brokers; kproxy reads at most 20,000; kproxy ends the connection"
        assert any(wanted in said for said in messages), messages


def test_where_descriptors_are_few_no_address_of_a_broker_reaches_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.runs.launcher.subprocess.Popen", limited_popen(700))
    with scene() as at:
        at.lie(lambda _: many(900))
        with contextlib.ExitStack() as connections:
            for answer in at.ask(2):
                assert ours(answer) == 900
            for _ in range(100):
                connections.enter_context(hostile.connect(at.relay.clusters["west"]))
            at.check(700 // 4)
            assert at.taken.descriptors < 600
        messages = at.relay.command("status")["messages"]
        assert any("the limit of 700 open files" in said for said in messages), messages


def test_nodes_that_move_all_the_time_are_told_of_some_times() -> None:
    events: list[str] = []
    with scene() as at:
        at.relay.on_event(lambda event: events.append(event["event"]))
        at.lie(lambda number: [(node, b"b%d-%d" % (node, number), 9092) for node in range(100)])
        assert [ours(answer) for answer in at.ask(60)] == [100] * 60
        at.check(100)
    assert events.count("broker") == 100 * 20


def test_hosts_and_bytes_that_look_alike_are_searched_in_little_time() -> None:
    with scene() as at:
        at.lie(lambda _: [(size, b"a" * size, 0x6161) for size in range(1, 240) if size not in {96, 97}])
        assert ours(*at.ask()) == 237
        at.lie(lambda _: [], b"a" * 268_000)
        assert len(*at.ask()) > 268_000
        at.check(239)
        messages = at.relay.command("status")["messages"]
        assert any("only a part of it was searched" in said for said in messages), messages


def test_answers_that_stay_in_the_middle_take_no_more_than_there_is() -> None:
    """Ten of eight megabytes, in a cluster that may hold sixteen; meanwhile the other cluster's are rewritten."""
    with scene(memory_max=32 << 20) as at, contextlib.ExitStack() as connections:
        cut = hostile.metadata(0, [(1, b"b", 9092)], b"t" * (8 << 20))[:-1]
        at.liar.answer = lambda *asked: (cut,) if asked[0] == hostile.METADATA else hostile.echo(*asked)
        for _ in range(10):
            client = connections.enter_context(hostile.connect(at.relay.clusters["east"]))
            client.sendall(hostile.request(hostile.METADATA, hostile.METADATA_VERSION, 0))
        at.check(0)
        assert at.relay.command("status")["held_bytes"] <= 16 << 20
