"""Conversations as scripts: what goes in on either side, what comes out on the other."""

from __future__ import annotations

import struct
import tracemalloc
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.core import addresses
from kproxy.core.addresses import carrier
from kproxy.core.brokers import split_address
from kproxy.core.connection import Budget, Notice, Plans, Watch, changed_comment, no_frame
from kproxy.core.passing import MAX_NOTED
from kproxy.core.rewrite import Change, varint
from kproxy.decoders.conversation.comments import problems
from kproxy.decoders.problems import Code
from kproxy.decoders.schema import Message
from tests.kproxy.core.frames import (
    DEFINITIONS,
    Relay,
    carriers,
    decoded,
    framed,
    plain,
    request,
    response,
    with_endpoints,
)
from tests.support.playbook import PASSES, REWRITTEN, Playbook, end, leaked, notice, to_client

NODES = [(1, "kafka-1.example.com", 9092), (2, "10.0.0.2", 9093), (1001, "b", 65535)]
OURS = [(node_id, "127.0.0.1", 20_000 + node_id) for node_id, _, _ in NODES]
CUTS = [0, 1, 3, 7]
ALL = [pytest.param(*case, id=f"{case[2].name} v{case[1]}") for case in carriers()]
IN_ARRAYS = [case for case in carriers() if (found := carrier(case[2], case[1])) and found[1] is not None]
WALKED = [param for param in ALL if param.values[0] in {0, 1}]


def expected(values: dict[str, Any], message: Message, version: int, host: str = "127.0.0.1") -> dict[str, Any]:
    """What the client must decode: the same with hosts and ports of ours."""
    found = carrier(message, version)
    assert found is not None
    carried, field = found
    entries = [values] if field is None else values[field.name]
    base = 30_000 if carried.controllers is True else 20_000
    for entry in entries:
        for address in entry[carried.listeners] if carried.listeners else [entry]:
            if address[carried.host]:
                address[carried.host] = host
                address[carried.port] = base + entry[carried.node_id]
    return values


@pytest.mark.parametrize(("api_key", "version", "message"), ALL)
@pytest.mark.parametrize("cut", CUTS)
def test_addresses_are_replaced_and_nothing_else(api_key: int, version: int, message: Message, cut: int) -> None:
    relay = Relay()
    asked = request(api_key, version, 7)
    other = request(12, 0, 8)
    answer = response(api_key, version, 7, with_endpoints(message, version, NODES))
    heartbeat = response(12, 0, 8, {})
    relay.client(asked + other, cut)
    assert relay.to_broker == asked + other
    relay.broker(answer + heartbeat, cut)
    got, rest = relay.to_client[: -len(heartbeat)], relay.to_client[-len(heartbeat) :]
    assert rest == heartbeat
    before = plain(decoded(answer, api_key, version))
    assert plain(decoded(got, api_key, version)) == expected(before, message, version)
    assert relay.notices == []
    assert relay.shared.budget.held == 0
    (changed,) = relay.changed
    assert any(change.old == NODES[0][1] and change.new == "127.0.0.1" for change in changed.changes)
    if not cut:
        assert (changed.start, changed.end) == (0, len(answer))
    assert relay.connection.idle


@pytest.mark.parametrize(("api_key", "version", "message"), ALL)
def test_entries_without_a_node_pass_untouched(api_key: int, version: int, message: Message) -> None:
    relay = Relay()
    answer = response(api_key, version, 1, with_endpoints(message, version, [(-1, "", -1)]))
    relay.client(request(api_key, version, 1))
    relay.broker(answer)
    assert relay.to_client == answer
    assert relay.changed == []
    assert relay.book.nodes == {}


@pytest.mark.parametrize(("api_key", "version", "message"), ALL)
@pytest.mark.parametrize("cut", [0, 1])
def test_a_frame_that_ends_early_passes_untouched(api_key: int, version: int, message: Message, cut: int) -> None:
    answer = response(api_key, version, 1, with_endpoints(message, version, NODES))
    for size in range(8, len(answer) - 1, 5):
        relay = Relay()
        short = (size - 4).to_bytes(4, "big") + answer[4:size]
        relay.client(request(api_key, version, 1))
        relay.broker(short, cut)
        relay.broker_ended()
        if not relay.changed:
            assert relay.to_client == short
            assert relay.shared.counters.unread <= 1
        assert relay.shared.budget.held == 0


@pytest.mark.parametrize(("api_key", "version", "message"), WALKED)
@pytest.mark.parametrize("cut", [0, 1, 100])
@pytest.mark.parametrize("host", ["127.0.0.1", "x", "a-much-longer-host.example.org"])
def test_a_long_response_keeps_its_length(api_key: int, version: int, message: Message, cut: int, host: str) -> None:
    relay = Relay(hold_max=64, host=host)
    values = with_endpoints(message, version, [*NODES, (7, "10.0.0.70", 9092), (8, "10.0.0.80.example", 9092)])
    values["responses"] = [topic(api_key, version, 300)]
    answer = response(api_key, version, 1, values)
    relay.client(request(api_key, version, 1))
    relay.broker(answer, cut)
    assert len(relay.to_client) == len(answer)
    before, after = plain(decoded(answer, api_key, version)), plain(decoded(relay.to_client, api_key, version))
    unknown = after.pop("_unknownTaggedFields", [])
    if host.startswith("a-much"):
        assert relay.shared.counters.retagged == 1
        assert "nodeEndpoints" not in after
        assert len(unknown) == 1
        assert set(bytes(unknown[0][1])) == {0}
        del before["nodeEndpoints"]
        assert after == before
    else:
        assert after == expected(before, message, version, host)
    assert relay.shared.counters.walked == 1
    assert relay.notices == []


def topic(api_key: int, version: int, size: int) -> dict[str, Any]:
    """One topic of a Produce or Fetch response with something long in it."""
    by_id = (api_key == 1 and version >= 13) or (api_key == 0 and version >= 13)
    name: dict[str, Any] = {"topicId": bytes(range(16))} if by_id else {("name" if api_key == 0 else "topic"): "t"}
    if api_key == 0:
        return {**name, "partitionResponses": [{"index": 1, "errorMessage": "e" * size}]}
    return {**name, "partitions": [{"partitionIndex": 1, "records": bytes(size)}]}


def test_padding_and_retagging_for_every_difference_of_length() -> None:
    message = DEFINITIONS.response(1, 17)
    assert message is not None
    for size in range(1, 300):
        relay = Relay(hold_max=1)
        values = with_endpoints(message, 17, [(1, "h" * size, 9092)])
        answer = response(1, 17, 1, values)
        relay.client(request(1, 17, 1))
        relay.broker(answer)
        assert len(relay.to_client) == len(answer)
        after = decoded(relay.to_client, 1, 17)
        fits = size == len("127.0.0.1") or size > len("127.0.0.1") + 1
        assert ("nodeEndpoints" in after) == fits
        assert b"h" * max(size, 2) not in relay.to_client


def test_a_walked_response_without_endpoints_passes_piece_by_piece() -> None:
    relay = Relay(hold_max=1000)
    answer = response(1, 16, 5, {"responses": [topic(1, 16, 1 << 20)] * 8})
    relay.client(request(1, 16, 5))
    relay.broker(answer[:5000])
    assert relay.to_client == answer[:5000]
    relay.broker(answer[5000:])
    assert relay.to_client == answer
    assert relay.shared.counters.rewritten == 0


def test_what_carries_no_address_passes_at_once() -> None:
    story = Playbook(Relay().connection).client(request(1, 4, 1), PASSES)
    for byte in response(1, 4, 1, {}):
        story.broker(bytes([byte]), PASSES)


def metadata(correlation_id: int, nodes: list[tuple[int, str, int]]) -> bytes:
    message = DEFINITIONS.response(3, 9)
    assert message is not None
    return response(3, 9, correlation_id, with_endpoints(message, 9, nodes))


def test_responses_are_told_apart_by_correlation_id() -> None:
    heartbeat = response(12, 0, 2, {})
    story = Playbook(Relay().connection)
    story.client(request(3, 9, 1) + request(12, 0, 2) + request(3, 9, 3), PASSES)
    story.broker(metadata(3, NODES), to_client(metadata(3, OURS)), REWRITTEN)
    story.broker(heartbeat, PASSES)
    story.broker(metadata(1, NODES), to_client(metadata(1, OURS)), REWRITTEN)


def test_ids_that_repeat_are_answered_oldest_first() -> None:
    heartbeat = response(12, 0, 1, {})
    story = Playbook(Relay().connection).client(request(3, 9, 1) + request(12, 0, 1), PASSES)
    story.broker(metadata(1, NODES) + heartbeat, to_client(metadata(1, OURS)), REWRITTEN, to_client(heartbeat))


def test_no_request_for_addresses_is_forgotten_however_many_wait() -> None:
    relay = Relay()
    story = Playbook(relay.connection)
    story.client(b"".join(request(3, 9, number) for number in range(MAX_NOTED)), PASSES)
    story.client(request(3, 9, MAX_NOTED), PASSES, end("unanswered"))
    story.broker(metadata(0, NODES))
    assert relay.shared.counters.withheld == 1


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("same", [False, True], ids=["ids that differ", "one id"])
def test_produce_that_is_never_answered_is_forgotten_and_strays_are_searched(cut: int, same: bool) -> None:
    relay = Relay()
    message, metadata = DEFINITIONS.response(0, 10), DEFINITIONS.response(3, 9)
    assert message is not None
    assert metadata is not None
    relay.client(request(3, 9, -1))
    relay.broker(response(3, 9, -1, with_endpoints(metadata, 9, NODES)))
    before = len(relay.to_client)
    for number in range(MAX_NOTED + 10):
        relay.client(request(0, 10, 7 if same else number))
    heartbeat = response(12, 0, 9_999, {})
    relay.client(request(12, 0, 9_999) + request(3, 9, 10_000))
    relay.broker(heartbeat, cut)
    assert relay.to_client[before:] == heartbeat
    relay.broker(response(3, 9, 10_000, with_endpoints(metadata, 9, NODES)), cut)
    assert b"kafka-1" not in relay.to_client
    assert relay.ends == []
    stray = response(0, 10, 3, with_endpoints(message, 10, NODES))
    relay.broker(stray, cut)
    assert b"kafka-1" not in relay.to_client
    assert relay.ends == ["withheld-a request that is forgotten"]


def test_an_unknown_version_passes_and_is_named() -> None:
    relay, unread = Relay(), f"unread-Metadata v99 (known: {DEFINITIONS.versions(3)})"
    story = Playbook(relay.connection).client(request(3, 99, 1), PASSES)
    story.broker(framed(b"\0\0\0\x01abcd"), notice(f"{unread}-no definition of this version"), PASSES)
    assert relay.shared.counters.unread == 1


@pytest.mark.parametrize("cut", CUTS)
def test_an_unknown_key_passes_untouched(cut: int) -> None:
    relay = Relay()
    story = Playbook(relay.connection).client(request(12345, 3, 1), PASSES)
    story.broker(framed(b"\0\0\0\x01abcd"), PASSES, cut=cut)
    assert relay.shared.counters.unread == 0


ADDRESS = b"\x08kafka-9" + (9092).to_bytes(4, "big")


@pytest.mark.parametrize(("api_key", "version"), [(12345, 3), (3, 99), (12, 99), (1, 99)])
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("size", [0, 60_000])
def test_an_address_in_what_nobody_knows_is_noticed(api_key: int, version: int, cut: int, size: int) -> None:
    relay = Relay()
    relay.book.known.remember("kafka-9", 9092)
    answer = framed(b"\0\0\0\x01" + bytes(size) + ADDRESS)
    relay.client(request(api_key, version, 1))
    relay.broker(answer, cut and cut + size // 10)
    assert relay.to_client == answer
    assert relay.shared.counters.leaked == 1
    assert any(notice.startswith("leaked-") for notice in relay.notices)
    (changed,) = relay.changed
    assert changed.leaked == ("kafka-9", 9092)
    (problem,) = problems(changed.comment, "response")
    assert (problem.code, problem.message.rpartition(" ")[2]) == (Code.ADDRESS_LEAKED, "kafka-9:9092")
    assert relay.shared.budget.held == 0


def test_what_nobody_knows_is_not_held_where_it_is_long() -> None:
    story = Playbook(Relay().connection).client(request(12345, 3, 1), PASSES)
    story.broker(framed(b"\0\0\0\x01" + bytes(70_000))[:100], PASSES)


def test_an_address_that_stays_because_a_response_ends_early_is_noticed() -> None:
    relay = Relay()
    relay.book.known.remember("kafka-1.example.com", 9092)
    story = Playbook(relay.connection).client(request(3, 9, 1), PASSES)
    notices = [
        notice("unread-Metadata v9-4 bytes wanted, 2 there"),
        notice("leaked-Metadata v9-kafka-1.example.com:9092"),
    ]
    story.broker(framed(metadata(1, NODES)[4:-40]), PASSES, *notices, leaked("kafka-1.example.com", 9092))
    assert (relay.shared.counters.unread, relay.shared.counters.leaked) == (1, 1)


def test_a_brokers_address_that_is_advertised_is_no_leak() -> None:
    relay = Relay(advertise="{host}:9092")
    Playbook(relay.connection).client(request(3, 9, 1), PASSES).broker(metadata(1, NODES[:1]), PASSES)
    assert relay.shared.counters.leaked == 0


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("endpoint_type", "base"), [(1, 20_000), (2, 30_000)])
def test_brokers_and_controllers_are_kept_apart(version: int, endpoint_type: int, base: int) -> None:
    relay = Relay()
    message = DEFINITIONS.response(60, version)
    assert message is not None
    relay.book.ours(1, "broker", 9092, "x")
    values = with_endpoints(message, version, [(1, "other", 9093)]) | {"endpointType": endpoint_type}
    relay.client(request(60, version, 1))
    relay.broker(response(60, version, 1, values))
    (told,) = decoded(relay.to_client, 60, version)["brokers"]
    assert told["port"] == base + 1
    assert relay.book.nodes[1].port == (9093 if endpoint_type == 1 else 9092)
    assert set(relay.book.controllers) == (set() if endpoint_type == 1 else {1})


def test_a_controller_of_several_listeners_is_one() -> None:
    relay = Relay()
    listeners = [{"name": name, "host": name, "port": 9093 + at} for at, name in enumerate(["PLAIN", "TLS"])]
    answer = response(55, 2, 1, {"nodes": [{"nodeId": 3000, "listeners": listeners}]})
    relay.client(request(55, 2, 1))
    relay.broker(answer)
    (node,) = decoded(relay.to_client, 55, 2)["nodes"]
    assert [(one["host"], one["port"]) for one in node["listeners"]] == [("127.0.0.1", 33_000)] * 2
    assert (relay.book.controllers[3000].host, relay.book.controllers[3000].port) == ("PLAIN", 9093)


def test_the_quorum_is_left_alone_unless_asked() -> None:
    relay = Relay(plans=Plans(DEFINITIONS))
    answer = response(55, 2, 1, {"nodes": [{"nodeId": 1, "listeners": [{"name": "C", "host": "kafka-9", "port": 1}]}]})
    relay.client(request(55, 2, 1))
    relay.broker(answer)
    assert relay.to_client == answer
    assert relay.notices == ["controllers-DescribeQuorum v2"]  # once for all brokers
    relay.book.known.remember("kafka-9", 1)
    relay.client(request(55, 2, 1))
    relay.broker(answer)
    assert relay.shared.counters.leaked == 1


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_bytes_pass_a_watch(body: bytes, cut: int) -> None:
    relay = Relay()
    relay.book.known.remember("k", 1)
    answer = framed(b"\0\0\0\x01" + body)
    relay.client(request(999, 0, 1))
    relay.broker(answer, cut)
    assert relay.to_client == answer
    assert relay.shared.budget.held == 0


@pytest.mark.parametrize(
    ("data", "named"), [(b"\x15\x03\x03\x00\x02\x02\x46", "TLS"), (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP")]
)
@pytest.mark.parametrize("cut", [0, 1])
@pytest.mark.parametrize("asked", [True, False])
def test_another_protocol_upstream_passes_and_is_named(data: bytes, named: str, cut: int, asked: bool) -> None:
    relay = Relay()
    relay.client(request(3 if asked else 18, 0, 1))
    relay.broker(data * 3, cut)
    relay.broker_ended()
    assert relay.to_client == data * 3
    assert relay.notices == [f"not-kafka-1-{named}"]


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_tls_from_a_client_passes_and_is_named(cut: int) -> None:
    relay = Relay()
    hello = bytes.fromhex("1603010200010001fc0303") + bytes(300)
    relay.client(hello, cut)
    assert relay.to_broker == hello
    assert relay.notices == ["not-kafka-0-TLS"]


@pytest.mark.parametrize("cut", CUTS)
def test_bare_sasl_tokens_pass(cut: int) -> None:
    tokens = b"\0\0\0\0" + b"\0\0\0\x03abc" + b"\0\0\0\x0c\0user\0secret"
    answers = response(17, 0, 1, {}) + b"\0\0\0\0" + b"\0\0\0\x02ok"
    story = Playbook(Relay().connection).client(request(17, 0, 1) + tokens + request(3, 9, 2), PASSES, cut=cut)
    story.broker(answers + metadata(2, NODES), to_client(answers + metadata(2, OURS)), REWRITTEN, cut=cut)


@pytest.mark.parametrize("cut", CUTS)
def test_what_there_is_no_memory_for_ends_the_connection(cut: int) -> None:
    relay = Relay()
    relay.shared.budget.limit = 100
    message = DEFINITIONS.response(3, 9)
    assert message is not None
    answer = response(3, 9, 1, with_endpoints(message, 9, NODES * 10))
    relay.client(request(3, 9, 1) + request(12, 0, 2))
    relay.broker(answer + response(12, 0, 2, {}), cut)
    relay.broker_ended()
    assert relay.to_client == b""
    assert relay.ends == ["withheld-Metadata v9"]
    assert relay.shared.counters.withheld == 1
    assert relay.shared.budget.held == 0
    (changed,) = relay.changed
    assert changed.comment.startswith("kproxy withheld this from the client: there is no memory left")


@pytest.mark.parametrize(("api_key", "version", "message"), WALKED)
@pytest.mark.parametrize("cut", [0, 1, 100])
@pytest.mark.parametrize("limit", [10, 100, 300])
def test_a_response_that_cannot_be_held_is_walked(
    api_key: int, version: int, message: Message, cut: int, limit: int
) -> None:
    values = with_endpoints(message, version, NODES[:1])
    values["responses"] = [topic(api_key, version, 300)]
    answer = response(api_key, version, 1, values)
    relay = Relay()
    relay.shared.budget.limit = limit
    relay.client(request(api_key, version, 1))
    relay.broker(answer, cut)
    relay.broker_ended()
    assert b"kafka-1" not in relay.to_client
    assert relay.shared.budget.held == 0
    if limit == 10:
        assert relay.ends
        assert answer.startswith(relay.to_client)
    else:
        after = plain(decoded(relay.to_client, api_key, version))
        after.pop("_unknownTaggedFields", None)
        assert after == expected(plain(decoded(answer, api_key, version)), message, version)
        assert (relay.ends, relay.notices, relay.shared.counters.walked) == ([], [], 1)


def test_what_is_only_watched_passes_where_there_is_no_memory() -> None:
    relay = Relay()
    relay.shared.budget.limit = 10
    relay.client(request(12345, 3, 1))
    answer = framed(b"\0\0\0\x01" + bytes(100))
    relay.broker(answer, 7)
    assert relay.to_client == answer
    assert relay.shared.counters.unsearched == 1
    assert relay.notices == ["unsearched-API 12345 v3"]


@pytest.mark.parametrize(("api_key", "version", "message"), IN_ARRAYS)
def test_more_than_may_be_read_ends_the_connection(
    api_key: int, version: int, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "MOST_READ", 2)
    relay = Relay()
    relay.client(request(api_key, version, 1))
    relay.broker(response(api_key, version, 1, with_endpoints(message, version, NODES)))
    assert relay.to_client == b""
    assert len(relay.ends) == 1
    assert relay.book.nodes == relay.book.controllers == {}


@pytest.mark.parametrize(("api_key", "version", "message"), ALL)
@pytest.mark.parametrize(
    "node", [(1, "kafka-1", 0), (1, "kafka-1", 70_000), (-5, "kafka-1", 9092), (1, "k" * 256, 9092)]
)
def test_what_is_no_address_leads_nowhere(
    api_key: int, version: int, message: Message, node: tuple[int, str, int]
) -> None:
    if message.name == "DescribeQuorumResponse":  # its ports have two bytes
        node = (*node[:2], node[2] % 70_000)
    relay = Relay()
    relay.client(request(api_key, version, 1))
    relay.broker(response(api_key, version, 1, with_endpoints(message, version, [node])))
    assert node[1].encode() not in relay.to_client
    assert relay.book.nodes == relay.book.controllers == {}
    relay.client(request(12345, 0, 2))
    relay.broker(framed(b"\0\0\0\x02\x07kafka-1" + bytes(4)))
    assert relay.shared.counters.leaked == 0, "a port of 0 is no address"


@pytest.mark.parametrize(("api_key", "version", "message"), ALL)
@pytest.mark.parametrize("nowhere", [1, None])
def test_nodes_without_a_listener_lead_nowhere(
    api_key: int, version: int, message: Message, nowhere: int | None
) -> None:
    def full() -> int:
        if nowhere is None:
            raise OSError(24, "Too many open files")
        return nowhere

    relay = Relay()
    relay.book.open_listener, relay.book.nowhere = lambda _: None, full
    answer = response(api_key, version, 1, with_endpoints(message, version, NODES))
    relay.client(request(api_key, version, 1))
    relay.broker(answer)
    for _, host, _ in NODES[:2]:
        assert host.encode() not in relay.to_client
    assert relay.book.nodes == relay.book.controllers == {}
    assert relay.shared.budget.held == 0
    if nowhere is None:
        assert relay.to_client == b""
        assert len(relay.ends) == 1
    else:
        assert relay.ends == []
        decoded(relay.to_client, api_key, version)


def test_small_pieces_of_a_held_response_take_no_more_memory_than_they_have_bytes() -> None:
    relay = Relay()
    size = 100_000
    relay.client(request(3, 9, 1))
    relay.broker(framed(b"\0\0\0\x01" + bytes(size))[:8])
    tracemalloc.start()
    try:
        for _ in range(size - 1):
            relay.connection.from_broker(b"\0")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * size


@pytest.mark.parametrize(
    ("said", "answered", "begun"),
    [
        (b"", b"", False),
        (b"\0\0", b"", False),
        (request(3, 1, 1)[:-1], b"", False),
        (request(3, 1, 1), b"", True),
        (request(3, 1, 1) + b"\0", b"", True),
        (b"\x16\x03\x01\x02", b"", True),
        (b"", b"HTTP/1.1 400", True),
    ],
)
def test_a_client_begins_with_a_whole_request(said: bytes, answered: bytes, begun: bool) -> None:
    relay = Relay()
    relay.client(said)
    relay.broker(answered)
    assert relay.connection.begun == begun


def test_what_is_held_leaves_when_the_broker_ends() -> None:
    relay = Relay()
    message = DEFINITIONS.response(3, 9)
    assert message is not None
    answer = response(3, 9, 1, with_endpoints(message, 9, NODES))
    relay.client(request(3, 9, 1))
    relay.broker(answer[:-1])
    assert relay.to_client == b""
    relay.broker_ended()
    assert relay.to_client == answer[:-1]


def test_a_leak_is_noticed() -> None:
    relay = Relay()
    relay.book.known.remember("kafka-9", 8000)
    text = "\x07kafka-9\0\0" + chr(8000 >> 8) + chr(8000 & 0xFF)
    answer = response(10, 1, 1, {"nodeId": -1, "errorMessage": text, "port": -1})
    relay.client(request(10, 1, 1))
    relay.broker(answer)
    assert relay.shared.counters.leaked == 1


def test_a_template_names_each_broker() -> None:
    relay = Relay(advertise="{broker}.kafka.local:{port}")
    message = DEFINITIONS.response(3, 12)
    assert message is not None
    relay.client(request(3, 12, 1))
    relay.broker(response(3, 12, 1, with_endpoints(message, 12, NODES)))
    brokers = decoded(relay.to_client, 3, 12)["brokers"]
    assert [broker["host"] for broker in brokers] == ["1.kafka.local", "2.kafka.local", "1001.kafka.local"]


@settings(max_examples=37, deadline=None)
@given(st.data())
def test_any_bytes_pass_whatever_they_are(data: st.DataObject) -> None:
    relay = Relay(hold_max=data.draw(st.sampled_from([1, 20, 1000])))
    cases = list(carriers())
    sent = b""
    for number in range(data.draw(st.integers(1, 4))):
        api_key, version, message = data.draw(st.sampled_from(cases))
        relay.client(request(api_key, version, number))
        answer = bytearray(response(api_key, version, number, with_endpoints(message, version, [(-1, "", -1)])))
        for at in data.draw(st.lists(st.integers(8, len(answer) - 1), max_size=3)):
            answer[at] = data.draw(st.integers(0, 255))
        sent += answer
    sent += data.draw(st.binary(max_size=40))
    relay.broker(sent, data.draw(st.sampled_from([0, 1, 5, 13])))
    relay.broker_ended()
    if not relay.changed:
        assert relay.to_client == sent
    assert relay.shared.budget.held == 0


@pytest.mark.parametrize(("changes", "last"), [(200, "port: 1 -> 200"), (201, "(1 more)"), (250, "(50 more)")])
def test_a_comment_lists_200_changes_and_counts_the_others(changes: int, last: str) -> None:
    first, *lines = changed_comment("client", [Change("port", 1, new) for new in range(1, changes + 1)]).split("\n")
    assert first.endswith("on the way to the client:")
    assert lines[:200] == [f"port: 1 -> {new}" for new in range(1, 201)]
    assert lines[-1] == last
    assert len(lines) == min(changes, 201)


def test_a_connection_is_idle_between_frames_where_nothing_waits() -> None:
    """Byte by byte through two requests and their responses."""
    relay = Relay()
    states = []
    for take, data in (
        (relay.client, request(12, 0, 1)),
        (relay.broker, response(12, 0, 1, {})),
        (relay.client, request(3, 9, 2)),
        (relay.broker, response(3, 9, 2, {})),
    ):
        for at in range(len(data)):
            states.append(relay.connection.idle)
            take(data[at : at + 1])
        assert relay.connection.idle == (take == relay.broker)
    asked, answered = len(request(12, 0, 1)), len(response(12, 0, 1, {}))
    first, second = asked + answered, len(request(3, 9, 2)) + len(response(3, 9, 2, {}))
    assert states == [at in {0, first} for at in range(first + second)]


def test_what_came_of_the_first_request_grows_until_it_is_whole() -> None:
    relay = Relay()
    data = request(3, 9, 1)
    seen = [relay.connection.received]
    for at in range(len(data) - 1):
        relay.client(data[at : at + 1])
        seen.append(relay.connection.received)
    assert seen[:12] == list(range(12))
    assert all(low < high for low, high in pairwise(seen))


@pytest.mark.parametrize(("key", "version"), [(3, 99), (12, 99), (12, 0), (3, 1)])
def test_plans_are_made_once(key: int, version: int) -> None:
    plans = Plans(DEFINITIONS)
    plan = plans.get(key, version)
    assert plans.get(key, version) is plan
    assert list(plans.made) == [key << 16 | version]
    if version == 99:
        assert isinstance(plan, Watch)
        known = DEFINITIONS.versions(key)
        api = {3: "Metadata", 12: "Heartbeat"}[key]
        assert plan.name == f"{api} v99 (known: {known})"
        assert bool(plan.topic) == bool(plan.text) == (key == 3)
    assert Plans(None).get(key, version) is None


def test_an_api_that_nobody_knows_is_watched_by_its_number() -> None:
    plan = Plans(DEFINITIONS).get(900, 3)
    assert plan == Watch("API 900 v3")


def test_sizes_of_fixed_fields() -> None:
    codes = {
        "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
        "float64": "d", "uuid": "16s",
    }  # fmt: skip
    assert {name: struct.calcsize(f">{code}") for name, code in codes.items()} == addresses.FIXED


def test_what_all_connections_hold_together_is_bounded() -> None:
    budget = Budget(10)
    assert [budget.take(size) for size in (6, 5, 4, 1)] == [True, False, True, False]
    assert budget.held == 10
    budget.give(3)
    assert [budget.take(size) for size in (4, 3)] == [False, True]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host", ("host", None)), ("host:", ("host", None)), ("host:0", ("host", 0)), ("host:65535", ("host", 65535)),
        ("[::1]", ("::1", None)), ("[::1]:9092", ("::1", 9092)), ("::1", ("::1", None)), ("", ("", None)),
    ],
)  # fmt: skip
def test_addresses_to_advertise(text: str, address: tuple[str, int | None]) -> None:
    assert split_address(text) == address


@pytest.mark.parametrize("text", ["host:65536", "host:x", "host:-1", "host:1.5", "[::1", "[::1]9092"])
def test_no_addresses(text: str) -> None:
    with pytest.raises(ValueError, match=r"no (address|port)"):
        split_address(text)


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (255, "ff01"), (16_383, "ff7f"), (16_384, "808001")],
)
def test_varints(value: int, data: str) -> None:
    assert varint(value) == bytes.fromhex(data)


@pytest.mark.parametrize(("beyond", "counted"), [(0, (1, 0)), (-1, (0, 1))])
def test_what_is_longer_than_may_be_held_is_walked(beyond: int, counted: tuple[int, int]) -> None:
    message = DEFINITIONS.response(1, 16)
    assert message is not None
    answer = response(1, 16, 1, with_endpoints(message, 16, NODES[:1]))
    relay = Relay(hold_max=len(answer) + beyond, host="127.0.0.1")
    relay.client(request(1, 16, 1))
    relay.broker(answer)
    counters = relay.shared.counters
    assert (counters.held, counters.walked, counters.rewritten) == (*counted, 1)
    assert relay.shared.budget.held == 0


@pytest.mark.parametrize("cut", range(1, 60))
def test_frames_behind_one_that_cannot_be_read_keep_their_places(cut: int) -> None:
    """A Metadata whose brokers cannot be read passes, and the response behind it is answered as ever."""
    message = DEFINITIONS.response(3, 9)
    assert message is not None
    broken = framed((1).to_bytes(4, "big") + b"\0" + bytes(4) + b"\xff\xff\xff\xff\x7f" + bytes(30))
    relay = Relay()
    relay.client(request(3, 9, 1) + request(3, 9, 2))
    relay.broker(broken + response(3, 9, 2, with_endpoints(message, 9, NODES)), cut)
    assert relay.to_client.startswith(broken)
    assert len(relay.changed) == 1
    assert b"kafka-1" not in relay.to_client
    assert relay.shared.counters.unread == 1
    assert relay.connection.idle


@pytest.mark.parametrize("cut", [0, 1, 7, 20])
def test_frames_behind_one_that_is_given_up_early_keep_their_places(cut: int) -> None:
    """A Produce whose first list has more entries than bytes."""
    message = DEFINITIONS.response(3, 9)
    assert message is not None
    broken = framed((1).to_bytes(4, "big") + b"\0" + b"\xff\xff\xff\xff\x07" + bytes(100))
    relay = Relay()
    relay.client(request(0, 11, 1) + request(3, 9, 2))
    relay.broker(broken + response(3, 9, 2, with_endpoints(message, 9, NODES)), cut)
    assert relay.to_client.startswith(broken)
    assert len(relay.changed) == 1
    assert b"kafka-1" not in relay.to_client
    assert relay.shared.counters.unread == 1
    assert relay.connection.idle


@pytest.mark.parametrize(
    ("start", "length", "first", "found"),
    [
        (b"\x20\0\0\0", 1 << 29, True, False),
        (b"\x20\0\0\1", (1 << 29) + 1, True, True),
        (b"\x7f\xff\xff\xff", (1 << 31) - 1, False, False),
        (b"\xff\xff\xff\xff", -1, False, True),
        (b"\0\0\0\0", 0, True, False),
    ],
)
def test_what_is_no_frame(start: bytes, length: int, first: bool, found: bool) -> None:
    assert no_frame(start + bytes(4), length, first=first) == (f"what is no frame ({start!r})" if found else None)


@pytest.mark.parametrize(
    ("side", "text"),
    [
        (0, "sends TLS, not Kafka's plain protocol: --tls-in auto lets clients speak TLS with kproxy"),
        (1, "sends TLS, not Kafka's plain protocol: --tls-out lets kproxy speak TLS with it"),
    ],
)
def test_who_speaks_tls_is_told_what_helps(side: int, text: str) -> None:
    connection = Relay().connection
    commands = (connection.from_broker if side else connection.from_client)(b"\x16\x03\x01\x02\x00\x01\x00\x01")
    assert [(one.topic, one.text, one.once) for one in commands if isinstance(one, Notice)] == [
        (f"not-kafka-{side}-TLS", text, False)
    ]
