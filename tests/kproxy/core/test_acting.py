"""Stories of connections with actors: a frame that an actor names is offered whole, all other bytes pass unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.core.commands import changed_comment
from kproxy.core.rewrite import Change
from kproxy.core.verdict import Turn, Verdict
from kproxy.decoders.conversation.comments import LEAKED
from kproxy.decoders.stream import Side
from kproxy.decoders.writer import write
from tests.kproxy.core.frames import DEFINITIONS, framed, naming, request, response
from tests.support.playbook import (
    ANYTHING,
    PASSES,
    Playbook,
    altered,
    notice,
    to_broker,
    to_client,
)

METADATA, HEARTBEAT, FIND_COORDINATOR = 3, 12, 10
X = Change("x", 1, 2)
"""The change that actors report."""
Offer = tuple[Side, int, int, bytes]


class Table:
    """Actors that add a byte to each frame that they are offered, so that all bytes behind it move."""

    definitions = DEFINITIONS

    def __init__(self, *wanted: tuple[Side, int], leave: bool = False) -> None:
        self._wanted = set(wanted)
        self._leave = leave
        self.plans: dict[int, Any] = {}
        self.offers: list[Offer] = []
        self.reasons: list[str] = []
        self.changes: tuple[Change, ...] = ()

    def act_on(self, side: Side, api_key: int) -> bool:
        return (side, api_key) in self._wanted

    def offer(self, side: Side, turn: Turn, verdict: Verdict) -> None:
        assert (turn.parties.client, turn.parties.broker) == ("c:1", "b:2")
        assert verdict.frame is not None
        self.offers.append((side, turn.api_key, turn.api_version, verdict.frame))
        verdict.changes += self.changes if self._leave else [X]
        verdict.frame = verdict.frame if self._leave else longer(verdict.frame)

    def passed(self, side: Side, api_key: int, api_version: int, reason: str) -> None:
        del side, api_key, api_version
        self.reasons.append(reason)


def longer(frame: bytes) -> bytes:
    return (len(frame) - 3).to_bytes(4, "big") + frame[4:] + b"!"


def asked(api_key: int, correlation_id: int, version: int = 0) -> bytes:
    message = DEFINITIONS.request(api_key, version)
    assert message is not None
    return request(api_key, version, correlation_id, write(message, version, {}))


@pytest.mark.parametrize("cut", [0, 1, 3, 7])
def test_only_frames_that_an_actor_names_are_offered(cut: int) -> None:
    table = Table((Side.CLIENT, HEARTBEAT), (Side.BROKER, FIND_COORDINATOR))
    requests = [asked(11, 1), asked(HEARTBEAT, 2), asked(FIND_COORDINATOR, 3), asked(HEARTBEAT, 4)]
    answers = [response(11, 0, 1, {}), response(HEARTBEAT, 0, 2, {}), response(FIND_COORDINATOR, 0, 3, {})]
    first, second = to_broker(requests[0]), to_broker(requests[2])
    story = Playbook(actors=table)
    story.client(b"".join(requests), first, altered(longer(requests[1])), second, altered(longer(requests[3])), cut=cut)
    unchanged = answers[0] + answers[1]
    story.broker(b"".join(answers), to_client(unchanged + longer(answers[2])), cut=cut).counted(held=1)
    assert story.recorded[-1] == (1, answers[2], changed_comment("client", [X]))
    assert table.offers == [
        (Side.CLIENT, HEARTBEAT, 0, requests[1]),
        (Side.CLIENT, HEARTBEAT, 0, requests[3]),
        (Side.BROKER, FIND_COORDINATOR, 0, answers[2]),
    ]


@given(st.lists(st.sampled_from([HEARTBEAT, METADATA, 11, 18]), max_size=6), st.lists(st.integers(1, 40)))
def test_what_actors_leave_alone_passes_byte_for_byte(keys: list[int], cuts: list[int]) -> None:
    table = Table(*((side, key) for side in (Side.CLIENT, Side.BROKER) for key in (HEARTBEAT, 18)), leave=True)
    story = Playbook(actors=table)
    up = b"".join(asked(key, number) for number, key in enumerate(keys))
    down = b"".join(response(key, 0, number, {}) for number, key in enumerate(keys))
    for data, feed in ((up, story.client), (down, story.broker)):
        at = 0
        for cut in [*cuts, len(data)]:
            if data[at : at + cut]:
                feed(data[at : at + cut], ANYTHING)
            at += cut
    assert (story.to_broker, story.to_client) == (up, down)
    assert story.connection.idle
    assert story.shared.budget.held == 0
    assert len(table.offers) == 2 * sum(key in {HEARTBEAT, 18} for key in keys)


@given(st.binary(max_size=60), st.integers(1, 9))
def test_any_bytes_pass(data: bytes, cut: int) -> None:
    story = Playbook(actors=Table((Side.CLIENT, 0), (Side.BROKER, 0), leave=True))
    story.client(data, ANYTHING, cut=cut).broker(data, ANYTHING, cut=cut)
    story.client_ended(ANYTHING).broker_ended(ANYTHING)
    assert (story.to_broker, story.to_client) == (data, data)
    assert story.shared.budget.held == 0


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_frame_without_a_header_passes(cut: int) -> None:
    token = b"\0\0\0\2hi"
    story = Playbook(actors=Table((Side.CLIENT, HEARTBEAT), (Side.BROKER, HEARTBEAT)))
    asks, answer = asked(HEARTBEAT, 1), response(HEARTBEAT, 0, 1, {})
    story.client(token + asks, to_broker(token), altered(longer(asks)), cut=cut)
    story.broker(token + answer, to_client(token + longer(answer)), cut=cut)


def test_of_equal_correlation_ids_the_oldest_is_answered_first() -> None:
    table = Table((Side.BROKER, HEARTBEAT), leave=True)
    keys = [HEARTBEAT, 11, HEARTBEAT, 11]
    answers = [response(key, 0, 1, {}) for key in keys]
    story = Playbook(actors=table).client(b"".join(asked(key, 1) for key in keys), PASSES)
    story.broker(b"".join(answers), PASSES)
    assert [offer[3] for offer in table.offers] == [answers[0], answers[2]]


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_addresses_are_rewritten_after_the_actor_s_changes(cut: int) -> None:
    table = Table((Side.BROKER, FIND_COORDINATOR), leave=True)
    table.changes = (X,)
    answer, new = (
        naming(FIND_COORDINATOR, 0, 1, [(5, *address)]) for address in (("kafka", 9092), ("127.0.0.1", 20_005))
    )
    heartbeat = response(HEARTBEAT, 0, 2, {})
    changes = [X, Change("host", "kafka", "127.0.0.1"), Change("port", 9092, 20_005)]
    story = Playbook(actors=table).client(asked(FIND_COORDINATOR, 1) + asked(HEARTBEAT, 2), PASSES)
    story.broker(heartbeat + answer, to_client(heartbeat + new), cut=cut)
    assert table.offers[0][3] == answer
    assert story.recorded == [(1, answer, changed_comment("client", changes))]


@pytest.mark.parametrize("first", [Side.CLIENT, Side.BROKER])
def test_changes_have_the_place_of_the_frame_in_the_bytes_that_came(first: Side) -> None:
    """Only addresses change in the Metadata; its place counts from what was fed, though a frame before it was held."""
    metadata, new = (naming(METADATA, 1, 2, [(5, *address)]) for address in (("kafka", 9092), ("127.0.0.1", 20_005)))
    heartbeat = response(HEARTBEAT, 0, 1, {})
    story = Playbook(actors=Table((first, HEARTBEAT))).client(asked(HEARTBEAT, 1) + asked(METADATA, 2, 1), ANYTHING)
    expected = longer(heartbeat) if first is Side.BROKER else heartbeat
    story.broker(heartbeat[:5], ANYTHING).broker(heartbeat[5:] + metadata, ANYTHING)
    assert story.to_client == expected + new
    assert [data for side, data, _ in story.recorded if side == 1][-1] == metadata


def test_a_frame_longer_than_hold_max_passes_and_is_named() -> None:
    table = Table((Side.CLIENT, HEARTBEAT))
    Playbook(actors=table, hold_max=10).client(asked(HEARTBEAT, 1), PASSES, cut=3)
    assert (table.offers, table.reasons) == ([], ["the frame is longer than --hold-max"])


@pytest.mark.parametrize("memory", [1, 15, 20])
def test_a_frame_that_does_not_fit_the_budget_passes_and_is_named(memory: int) -> None:
    table = Table((Side.CLIENT, HEARTBEAT))
    Playbook(actors=table, memory=memory).client(asked(HEARTBEAT, 1) + asked(11, 2), PASSES, cut=3).counted()
    assert (table.offers, table.reasons) == ([], ["no memory is left to hold it (--memory)"])


def test_a_connection_that_is_gone_gives_back_what_it_held() -> None:
    story = Playbook(actors=Table((Side.CLIENT, HEARTBEAT))).client(asked(HEARTBEAT, 1)[:-1])
    assert not story.connection.idle
    assert story.shared.budget.held > 0
    story.connection.dropped()
    story.counted()


@pytest.mark.parametrize("held", [True, False])
def test_a_leak_is_noticed_after_the_actor_s_changes(held: bool) -> None:
    table = Table((Side.BROKER, HEARTBEAT if held else FIND_COORDINATOR), leave=True)
    story = Playbook(actors=table).client(request(HEARTBEAT, 99, 1), PASSES)
    story.book.known.remember("kafka-9", 9092)
    leak = notice("leaked-Heartbeat v99 (known: 0-4)-kafka-9:9092")
    answer = framed(b"\0\0\0\x01\x08kafka-9" + (9092).to_bytes(4, "big"))
    story.broker(answer, ANYTHING)
    assert story.to_client == answer
    assert leak in story.outcomes
    assert story.recorded == [(1, answer, f"{LEAKED} kafka-9:9092")]
    assert len(table.offers) == held


@pytest.mark.parametrize(("alert", "name"), [(b"\x15\x03\x03\x00\x02\x02\x28", "TLS"), (b"HTTP/1.1 400", "HTTP")])
def test_bytes_of_another_protocol_do_not_wait(alert: bytes, name: str) -> None:
    story = Playbook(actors=Table((Side.BROKER, HEARTBEAT))).client(asked(HEARTBEAT, 1), PASSES)
    story.broker(alert, notice(f"not-kafka-1-{name}"), PASSES)
