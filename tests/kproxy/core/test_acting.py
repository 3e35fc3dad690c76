"""Connections on which actors work, as scripts: what they name is offered whole, all else passes as it came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.core.acting import ActedConnection
from kproxy.core.rewrite import Change
from kproxy.decoders.stream import Side
from kproxy.decoders.writer import write
from tests.kproxy.core.frames import DEFINITIONS, Relay, decoded, framed, request, response, with_endpoints

METADATA, HEARTBEAT, FIND_COORDINATOR = 3, 12, 10
Offer = tuple[Side, int, int, bytes]


class Table:
    """Actors as the connection knows them: adds a byte to what it is offered, so that everything behind it moves."""

    def __init__(self, *wanted: tuple[Side, int], leave: bool = False) -> None:
        self._wanted = set(wanted)
        self._leave = leave
        self.offers: list[Offer] = []
        self.reasons: list[str] = []
        self.changes: tuple[Change, ...] = ()

    def act_on(self, side: Side, api_key: int) -> bool:
        return (side, api_key) in self._wanted

    def offer(
        self, side: Side, api_key: int, api_version: int, frame: bytes, client: str, broker: str
    ) -> tuple[bytes, tuple[Change, ...]]:
        assert (client, broker) == ("c:1", "b:2")
        self.offers.append((side, api_key, api_version, frame))
        return (frame, self.changes) if self._leave else (longer(frame), (Change("x", 1, 2),))

    def passed(self, side: Side, api_key: int, api_version: int, reason: str) -> None:
        del side, api_key, api_version
        self.reasons.append(reason)


def longer(frame: bytes) -> bytes:
    return (len(frame) - 3).to_bytes(4, "big") + frame[4:] + b"!"


def acted(table: Table, *, hold_max: int = 1 << 20) -> Relay:
    relay = Relay(hold_max=hold_max)
    relay.connection = ActedConnection(relay.shared, "127.0.0.1", table, "c:1", "b:2")
    return relay


def asked(api_key: int, correlation_id: int, version: int = 0) -> bytes:
    message = DEFINITIONS.request(api_key, version)
    assert message is not None
    return request(api_key, version, correlation_id, write(message, version, {}))


@pytest.mark.parametrize("cut", [0, 1, 3, 7])
def test_only_what_is_named_is_offered(cut: int) -> None:
    table = Table((Side.CLIENT, HEARTBEAT), (Side.BROKER, FIND_COORDINATOR))
    relay = acted(table)
    requests = [asked(11, 1), asked(HEARTBEAT, 2), asked(FIND_COORDINATOR, 3), asked(HEARTBEAT, 4)]
    relay.client(b"".join(requests), cut)
    assert relay.to_broker == requests[0] + longer(requests[1]) + requests[2] + longer(requests[3])
    answers = [response(11, 0, 1, {}), response(HEARTBEAT, 0, 2, {}), response(FIND_COORDINATOR, 0, 3, {})]
    relay.broker(b"".join(answers), cut)
    assert [offer[:3] for offer in table.offers] == [
        (Side.CLIENT, HEARTBEAT, 0),
        (Side.CLIENT, HEARTBEAT, 0),
        (Side.BROKER, FIND_COORDINATOR, 0),
    ]
    assert table.offers[2][3] == answers[2]
    assert relay.to_client.startswith(answers[0] + answers[1])
    assert relay.shared.budget.held == 0


@given(st.lists(st.sampled_from([HEARTBEAT, METADATA, 11, 18]), max_size=6), st.lists(st.integers(1, 40)))
def test_what_actors_leave_alone_passes_byte_for_byte(keys: list[int], cuts: list[int]) -> None:
    table = Table(*((side, key) for side in (Side.CLIENT, Side.BROKER) for key in (HEARTBEAT, 18)), leave=True)
    relay = acted(table)
    up = b"".join(asked(key, number) for number, key in enumerate(keys))
    down = b"".join(response(key, 0, number, {}) for number, key in enumerate(keys))
    for data, feed in ((up, relay.client), (down, relay.broker)):
        at = 0
        for cut in [*cuts, len(data)]:
            if data[at : at + cut]:
                feed(data[at : at + cut])
            at += cut
    assert (relay.to_broker, relay.to_client) == (up, down)
    assert relay.connection.idle
    assert relay.shared.budget.held == 0
    assert len(table.offers) == 2 * sum(key in {HEARTBEAT, 18} for key in keys)


@given(st.binary(max_size=60), st.integers(1, 9))
def test_any_bytes_pass(data: bytes, cut: int) -> None:
    table = Table((Side.CLIENT, 0), (Side.BROKER, 0), leave=True)
    relay = acted(table)
    relay.client(data, cut)
    relay.broker(data, cut)
    for command in relay.connection.client_ended():
        relay._run([command])
    relay.broker_ended()
    assert (relay.to_broker, relay.to_client) == (data, data)
    assert relay.shared.budget.held == 0


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_frame_without_a_header_passes(cut: int) -> None:
    table = Table((Side.CLIENT, HEARTBEAT), (Side.BROKER, HEARTBEAT))
    relay = acted(table)
    token = b"\0\0\0\2hi"
    relay.client(token + asked(HEARTBEAT, 1), cut)
    relay.broker(token + response(HEARTBEAT, 0, 1, {}), cut)
    assert relay.to_broker == token + longer(asked(HEARTBEAT, 1))
    assert relay.to_client == token + longer(response(HEARTBEAT, 0, 1, {}))


def test_of_equal_correlation_ids_the_oldest_is_answered_first() -> None:
    table = Table((Side.BROKER, HEARTBEAT), leave=True)
    relay = acted(table)
    keys = [HEARTBEAT, 11, HEARTBEAT]
    relay.client(b"".join(asked(key, 1) for key in keys))
    answers = [response(key, 0, 1, {}) for key in keys]
    relay.broker(b"".join(answers))
    assert [offer[3] for offer in table.offers] == [answers[0], answers[2]]


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_addresses_are_rewritten_behind_actors(cut: int) -> None:
    table = Table((Side.BROKER, FIND_COORDINATOR), leave=True)
    table.changes = (Change("x", 1, 2),)
    relay = acted(table)
    message = DEFINITIONS.response(FIND_COORDINATOR, 0)
    assert message is not None
    answer = response(FIND_COORDINATOR, 0, 1, with_endpoints(message, 0, [(5, "kafka", 9092)]))
    heartbeat = response(HEARTBEAT, 0, 2, {})
    relay.client(asked(FIND_COORDINATOR, 1) + asked(HEARTBEAT, 2))
    relay.broker(heartbeat + answer, cut)
    assert table.offers[0][3] == answer
    got = decoded(relay.to_client[len(heartbeat) :], FIND_COORDINATOR, 0)
    assert (got["host"], got["port"]) == ("127.0.0.1", 20_005)
    (changed,) = relay.changed
    assert [change.path for change in changed.changes] == ["x", "host", "port"]
    if not cut:
        assert (changed.start, changed.end) == (len(heartbeat), len(heartbeat) + len(answer))


@pytest.mark.parametrize("first", [Side.CLIENT, Side.BROKER])
def test_changes_are_told_at_the_frame_s_own_bytes(first: Side) -> None:
    """Rewriting alone changes the Metadata; its place counts from what was fed, though a frame before it was held."""
    table = Table((first, HEARTBEAT))
    relay = acted(table)
    message = DEFINITIONS.response(METADATA, 1)
    assert message is not None
    metadata = response(METADATA, 1, 2, with_endpoints(message, 1, [(5, "kafka", 9092)]))
    heartbeat = response(HEARTBEAT, 0, 1, {})
    relay.client(asked(HEARTBEAT, 1) + asked(METADATA, 2, 1))
    relay.broker(heartbeat[:5])
    relay.broker(heartbeat[5:] + metadata)
    rest = len(heartbeat) - 5
    places = [(changed.start, changed.end) for changed in relay.changed]
    assert places[-1] == (rest, rest + len(metadata))
    assert places[:-1] == ([(0, rest)] if first is Side.BROKER else [])


def test_what_is_too_long_passes_and_is_named() -> None:
    table = Table((Side.CLIENT, HEARTBEAT))
    relay = acted(table, hold_max=10)
    relay.client(asked(HEARTBEAT, 1), 3)
    assert relay.to_broker == asked(HEARTBEAT, 1)
    assert table.offers == []
    assert table.reasons == ["it is longer than --hold-max"]


@pytest.mark.parametrize("limit", [1, 15, 20])
def test_what_does_not_fit_the_budget_passes_and_is_named(limit: int) -> None:
    table = Table((Side.CLIENT, HEARTBEAT))
    relay = acted(table)
    relay.shared.budget.limit = limit
    data = asked(HEARTBEAT, 1) + asked(11, 2)
    relay.client(data, 3)
    assert relay.to_broker == data
    assert table.offers == []
    assert table.reasons == ["too much is held already"]
    assert relay.shared.budget.held == 0


def test_a_connection_that_is_gone_gives_back_what_it_held() -> None:
    table = Table((Side.CLIENT, HEARTBEAT))
    relay = acted(table)
    relay.client(asked(HEARTBEAT, 1)[:-1])
    assert relay.to_broker == b""
    assert not relay.connection.idle
    assert relay.shared.budget.held > 0
    relay.connection.dropped()
    assert relay.shared.budget.held == 0


@pytest.mark.parametrize("held", [True, False])
def test_a_leak_is_told_behind_actors(held: bool) -> None:
    table = Table((Side.BROKER, HEARTBEAT if held else FIND_COORDINATOR), leave=True)
    relay = acted(table)
    relay.book.known.remember("kafka-9", 9092)
    relay.client(request(HEARTBEAT, 99, 1))
    relay.broker(framed(b"\0\0\0\x01\x08kafka-9" + (9092).to_bytes(4, "big")))
    assert len(table.offers) == held
    (changed,) = relay.changed
    assert changed.leaked == ("kafka-9", 9092)


@pytest.mark.parametrize("alert", [b"\x15\x03\x03\x00\x02\x02\x28", b"HTTP/1.1 400"])
def test_another_protocol_does_not_wait(alert: bytes) -> None:
    relay = acted(Table((Side.BROKER, HEARTBEAT)))
    relay.client(asked(HEARTBEAT, 1))
    relay.broker(alert)
    assert relay.to_client == alert
    assert any(notice.startswith("not-kafka-1") for notice in relay.notices)
