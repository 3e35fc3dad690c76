"""What a connection of the relay does with bytes of the client and of the broker, told as stories."""

from __future__ import annotations

import struct
import tracemalloc
from itertools import pairwise
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.core import addresses
from kproxy.core.addresses import carrier
from kproxy.core.brokers import split_address
from kproxy.core.commands import Changed, Notice, changed_comment
from kproxy.core.passing import MAX_NOTED
from kproxy.core.plans import Plans, Watch
from kproxy.core.protocols import no_frame
from kproxy.core.rewrite import Change, varint
from kproxy.core.shared import Budget
from kproxy.decoders.conversation.comments import problems
from kproxy.decoders.problems import Code
from tests.kproxy.core.frames import DEFINITIONS, carriers, decoded, framed, naming, plain, request, response
from tests.support.playbook import (
    ANYTHING,
    PASSES,
    PLANS,
    REWRITTEN,
    Playbook,
    end,
    leaked,
    notice,
    rewritten,
    to_client,
    withheld,
)

Node = tuple[int, str, int]
NODES = [(1, "kafka-1.example.com", 9092), (2, "10.0.0.2", 9093), (1001, "b", 65535)]
OURS = [(node_id, "127.0.0.1", 20_000 + node_id) for node_id, _, _ in NODES]
DESCRIBE_QUORUM = 55
CUTS = [0, 1, 3, 7]
ALL = [pytest.param(key, version, id=f"{message.name} v{version}") for key, version, message in carriers()]
IN_ARRAYS = [case[:2] for case in carriers() if (found := carrier(case[2], case[1])) and found[1] is not None]
WALKED = [param for param in ALL if param.values[0] in {0, 1}]


def ours(api_key: int, nodes: list[Node] = NODES, host: str = "127.0.0.1") -> list[Node]:
    """What the client gets in place of these nodes."""
    base = 30_000 if api_key == DESCRIBE_QUORUM else 20_000
    return [(node_id, host, base + node_id) for node_id, _, _ in nodes]


@pytest.mark.parametrize(("api_key", "version"), ALL)
@pytest.mark.parametrize("cut", CUTS)
def test_addresses_are_replaced_and_nothing_else(api_key: int, version: int, cut: int) -> None:
    answer, new = (naming(api_key, version, 7, nodes) for nodes in (NODES, ours(api_key)))
    heartbeat = response(12, 0, 8, {})
    story = Playbook().client(request(api_key, version, 7) + request(12, 0, 8), PASSES, cut=cut)
    place = 0, (len(answer) - 1) % cut + 1 if cut else len(answer)
    story.broker(answer + heartbeat, to_client(new), rewritten(at=place), to_client(heartbeat), cut=cut)
    story.counted(held=1, rewritten=1)
    assert (NODES[0][1], "127.0.0.1") in [(old, new) for _, old, new in story.outcomes[2][1]]
    assert story.connection.idle


@pytest.mark.parametrize(("api_key", "version"), ALL)
def test_entries_without_a_node_pass_unchanged(api_key: int, version: int) -> None:
    story = Playbook().client(request(api_key, version, 1), PASSES)
    story.broker(naming(api_key, version, 1, [(-1, "", -1)]), PASSES).counted(held=1)
    assert story.book.nodes == {}


@pytest.mark.parametrize(("api_key", "version"), ALL)
@pytest.mark.parametrize("cut", [0, 1])
def test_a_frame_that_ends_early_passes_unchanged(api_key: int, version: int, cut: int) -> None:
    answer = naming(api_key, version, 1, NODES)
    for size in range(8, len(answer) - 1, 5):
        short = framed(answer[4:size])
        story = Playbook().client(request(api_key, version, 1), PASSES)
        story.broker(short, ANYTHING, cut=cut).broker_ended()
        if REWRITTEN not in story.outcomes:
            assert story.to_client == short
            assert story.shared.counters.unread == 1
        assert story.shared.budget.held == 0


@pytest.mark.parametrize(("api_key", "version"), WALKED)
@pytest.mark.parametrize("cut", [0, 1, 100])
@pytest.mark.parametrize("host", ["127.0.0.1", "x", "a-much-longer-host.example.org"])
def test_a_long_response_keeps_its_length(api_key: int, version: int, cut: int, host: str) -> None:
    nodes = [*NODES, (7, "10.0.0.70", 9092), (8, "10.0.0.80.example", 9092)]
    answer, new = (
        naming(api_key, version, 1, each, responses=[topic(api_key, version, 300)])
        for each in (nodes, ours(api_key, nodes, host))
    )
    story = Playbook(hold_max=64, host=host).client(request(api_key, version, 1), PASSES)
    story.broker(answer, to_client(ANY), REWRITTEN, cut=cut)
    assert len(story.to_client) == len(answer)
    expected, got = plain(decoded(new, api_key, version)), plain(decoded(story.to_client, api_key, version))
    unknown = got.pop("_unknownTaggedFields", [])
    blanked = host.startswith("a-much")
    if blanked:
        assert len(unknown) == 1
        assert set(bytes(unknown[0][1])) == {0}
        del expected["nodeEndpoints"]
    assert got == expected
    story.counted(walked=1, rewritten=1, retagged=blanked)


def topic(api_key: int, version: int, size: int) -> dict[str, Any]:
    """One topic of a Produce or Fetch response, with a field of `size` bytes."""
    by_id = (api_key == 1 and version >= 13) or (api_key == 0 and version >= 13)
    name: dict[str, Any] = {"topicId": bytes(range(16))} if by_id else {("name" if api_key == 0 else "topic"): "t"}
    if api_key == 0:
        return {**name, "partitionResponses": [{"index": 1, "errorMessage": "e" * size}]}
    return {**name, "partitions": [{"partitionIndex": 1, "records": bytes(size)}]}


def test_padding_and_retagging_for_every_difference_of_length() -> None:
    for size in range(1, 300):
        story = Playbook(hold_max=1).client(request(1, 17, 1), PASSES)
        answer = naming(1, 17, 1, [(1, "h" * size, 9092)])
        story.broker(answer, to_client(ANY), REWRITTEN)
        assert len(story.to_client) == len(answer)
        fits = size == len("127.0.0.1") or size > len("127.0.0.1") + 1
        assert ("nodeEndpoints" in decoded(story.to_client, 1, 17)) == fits
        assert b"h" * max(size, 2) not in story.to_client


def test_a_walked_response_without_endpoints_passes_piece_by_piece() -> None:
    answer = response(1, 16, 5, {"responses": [topic(1, 16, 1 << 20)] * 8})
    story = Playbook(hold_max=1000).client(request(1, 16, 5), PASSES)
    story.broker(answer[:5000], PASSES).broker(answer[5000:], PASSES).counted(walked=1)


def test_a_response_without_addresses_passes_at_once() -> None:
    story = Playbook().client(request(1, 4, 1), PASSES)
    for byte in response(1, 4, 1, {}):
        story.broker(bytes([byte]), PASSES)


def metadata(correlation_id: int, nodes: list[tuple[int, str, int]]) -> bytes:
    return naming(3, 9, correlation_id, nodes)


def test_responses_are_matched_by_correlation_id() -> None:
    heartbeat = response(12, 0, 2, {})
    story = Playbook()
    story.client(request(3, 9, 1) + request(12, 0, 2) + request(3, 9, 3), PASSES)
    story.broker(metadata(3, NODES), to_client(metadata(3, OURS)), REWRITTEN)
    story.broker(heartbeat, PASSES)
    story.broker(metadata(1, NODES), to_client(metadata(1, OURS)), REWRITTEN)


def test_of_equal_correlation_ids_the_oldest_is_answered_first() -> None:
    asked, heartbeat = request(3, 9, 1), response(12, 0, 1, {})
    story = Playbook().client(asked + request(12, 0, 1) + asked, PASSES)
    named, new = metadata(1, NODES), to_client(metadata(1, OURS))
    story.broker(named + heartbeat + named, new, REWRITTEN, to_client(heartbeat + new[1]), REWRITTEN)


def test_no_request_for_addresses_is_forgotten_however_many_wait() -> None:
    story = Playbook().client(b"".join(request(3, 9, number) for number in range(MAX_NOTED)), PASSES)
    story.client(request(3, 9, MAX_NOTED), PASSES, end("unanswered"))
    story.broker(metadata(0, NODES)).counted(withheld=1)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("same", [False, True], ids=["ids that differ", "one id"])
def test_unanswered_produce_requests_are_forgotten_and_all_responses_are_searched(cut: int, same: bool) -> None:
    story = Playbook().client(request(3, 9, -1), PASSES)
    story.broker(metadata(-1, NODES), to_client(metadata(-1, OURS)), REWRITTEN)
    for number in range(MAX_NOTED + 10):
        story.client(request(0, 10, 7 if same else number), PASSES)
    story.client(request(12, 0, 9_999) + request(3, 9, 10_000), PASSES)
    story.broker(response(12, 0, 9_999, {}), PASSES, cut=cut)
    story.broker(metadata(10_000, NODES), to_client(metadata(10_000, OURS)), REWRITTEN, cut=cut)
    forgotten = naming(0, 10, 3, NODES)
    story.broker(forgotten, end("withheld-a request that kproxy no longer knows"), withheld(ANY), cut=cut)


def test_an_unknown_version_passes_and_is_named() -> None:
    unread = notice(f"unread-Metadata v99 (known: {DEFINITIONS.versions(3)})-no definition of this version")
    story = Playbook().client(request(3, 99, 1), PASSES)
    story.broker(framed(b"\0\0\0\x01abcd"), unread, PASSES).counted(held=1, unread=1)


@pytest.mark.parametrize("cut", CUTS)
def test_an_unknown_key_passes_unchanged(cut: int) -> None:
    story = Playbook().client(request(12345, 3, 1), PASSES)
    story.broker(framed(b"\0\0\0\x01abcd"), PASSES, cut=cut).counted(held=1)


ADDRESS = b"\x08kafka-9" + (9092).to_bytes(4, "big")


@pytest.mark.parametrize(("api_key", "version"), [(12345, 3), (3, 99), (12, 99), (1, 99)])
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("size", [0, 60_000])
def test_an_address_in_an_unknown_response_is_noticed(api_key: int, version: int, cut: int, size: int) -> None:
    watch = PLANS.get(api_key, version)
    assert isinstance(watch, Watch)
    unread = [notice(watch.topic)] if api_key in {1, 3} else []
    leak = notice(f"leaked-{watch.name}-kafka-9:9092"), leaked("kafka-9", 9092)
    story = Playbook().client(request(api_key, version, 1), PASSES)
    story.book.known.remember("kafka-9", 9092)
    story.broker(framed(b"\0\0\0\x01" + bytes(size) + ADDRESS), *unread, PASSES, *leak, cut=cut and cut + size // 10)
    story.counted(held=1, leaked=1, unread=len(unread))


def test_a_leaked_address_is_a_problem_of_the_exchange() -> None:
    (problem,) = problems(Changed(0, 1, leaked=("kafka-9", 9092)).comment, "response")
    assert (problem.code, problem.message.rpartition(" ")[2]) == (Code.ADDRESS_LEAKED, "kafka-9:9092")


def test_a_long_unknown_response_is_not_held() -> None:
    story = Playbook().client(request(12345, 3, 1), PASSES)
    story.broker(framed(b"\0\0\0\x01" + bytes(70_000))[:100], PASSES)


def test_an_address_that_stays_because_a_response_ends_early_is_noticed() -> None:
    story = Playbook().client(request(3, 9, 1), PASSES)
    story.book.known.remember("kafka-1.example.com", 9092)
    unread = notice("unread-Metadata v9-4 bytes expected, 2 left")
    leak = notice("leaked-Metadata v9-kafka-1.example.com:9092"), leaked("kafka-1.example.com", 9092)
    story.broker(framed(metadata(1, NODES)[4:-40]), PASSES, unread, *leak).counted(held=1, unread=1, leaked=1)


def test_a_broker_s_address_that_is_advertised_is_no_leak() -> None:
    story = Playbook(advertise="{host}:9092").client(request(3, 9, 1), PASSES)
    story.broker(metadata(1, NODES[:1]), PASSES).counted(held=1)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("endpoint_type", "base"), [(1, 20_000), (2, 30_000)])
def test_brokers_and_controllers_are_kept_apart(version: int, endpoint_type: int, base: int) -> None:
    story = Playbook().client(request(60, version, 1), PASSES)
    story.book.ours(1, "broker", 9092, "x")
    answer, new = (
        naming(60, version, 1, [(1, *address)], endpointType=endpoint_type)
        for address in (("other", 9093), ("127.0.0.1", base + 1))
    )
    story.broker(answer, to_client(new), REWRITTEN)
    assert story.book.nodes[1].port == (9093 if endpoint_type == 1 else 9092)
    assert set(story.book.controllers) == (set() if endpoint_type == 1 else {1})


def quorum(node_id: int, *addresses: tuple[str, int]) -> bytes:
    """DescribeQuorum with a controller of several listeners."""
    listeners = [{"name": f"listener-{at}", "host": host, "port": port} for at, (host, port) in enumerate(addresses)]
    return response(55, 2, 1, {"nodes": [{"nodeId": node_id, "listeners": listeners}]})


def test_a_controller_of_several_listeners_is_one() -> None:
    answer = quorum(3000, ("plain", 9093), ("tls", 9094))
    story = Playbook().client(request(55, 2, 1), PASSES)
    story.broker(answer, to_client(quorum(3000, *[("127.0.0.1", 33_000)] * 2)), REWRITTEN)
    assert (story.book.controllers[3000].host, story.book.controllers[3000].port) == ("plain", 9093)


def test_the_quorum_is_left_alone_unless_asked() -> None:
    answer, controllers = quorum(1, ("kafka-9", 1)), notice("controllers-DescribeQuorum v2")
    story = Playbook(plans=Plans(DEFINITIONS)).client(request(55, 2, 1), PASSES).broker(answer, controllers, PASSES)
    story.book.known.remember("kafka-9", 1)
    story.client(request(55, 2, 1), PASSES)
    leak = notice("leaked-DescribeQuorum v2-kafka-9:1"), leaked("kafka-9", 1)
    story.broker(answer, controllers, PASSES, *leak).counted(held=2, leaked=1)


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_bytes_pass_a_watch(body: bytes, cut: int) -> None:
    story = Playbook().client(request(999, 0, 1), PASSES)
    story.book.known.remember("k", 1)
    answer = framed(b"\0\0\0\x01" + body)
    story.broker(answer, ANYTHING, cut=cut)
    assert story.to_client == answer
    assert story.shared.budget.held == 0


@pytest.mark.parametrize(
    ("data", "named"), [(b"\x15\x03\x03\x00\x02\x02\x46", "TLS"), (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP")]
)
@pytest.mark.parametrize("cut", [0, 1])
@pytest.mark.parametrize("asked", [True, False])
def test_another_protocol_upstream_passes_and_is_named(data: bytes, named: str, cut: int, asked: bool) -> None:
    story = Playbook().client(request(3 if asked else 18, 0, 1), PASSES)
    story.broker(data * 3, ANYTHING, cut=cut).broker_ended()
    assert story.to_client == data * 3
    assert [one for one in story.outcomes[1:] if one[0] != "to client"] == [notice(f"not-kafka-1-{named}")]


@pytest.mark.parametrize(("cut", "first"), [(311, 311), (1, 2), (3, 3)])
def test_tls_from_a_client_passes_and_is_named(cut: int, first: int) -> None:
    hello = bytes.fromhex("1603010200010001fc0303") + bytes(300)
    story = Playbook().client(hello[:first], PASSES, notice("not-kafka-0-TLS"), cut=cut)
    story.client(hello[first:], PASSES)


@pytest.mark.parametrize("cut", CUTS)
def test_bare_sasl_tokens_pass(cut: int) -> None:
    tokens = b"\0\0\0\0" + b"\0\0\0\x03abc" + b"\0\0\0\x0c\0user\0secret"
    answers = response(17, 0, 1, {}) + b"\0\0\0\0" + b"\0\0\0\x02ok"
    story = Playbook().client(request(17, 0, 1) + tokens + request(3, 9, 2), PASSES, cut=cut)
    story.broker(answers + metadata(2, NODES), to_client(answers + metadata(2, OURS)), REWRITTEN, cut=cut)


@pytest.mark.parametrize("cut", CUTS)
def test_a_response_for_which_there_is_no_memory_ends_the_connection(cut: int) -> None:
    reason = withheld("no memory is left to hold it (--memory)")
    story = Playbook(memory=100).client(request(3, 9, 1) + request(12, 0, 2), PASSES)
    story.broker(metadata(1, NODES * 10) + response(12, 0, 2, {}), end("withheld-Metadata v9"), reason, cut=cut)
    story.broker_ended().counted(held=1, withheld=1)


def test_the_comment_on_a_withheld_response_says_why() -> None:
    assert (
        Changed(0, 1, withheld="there is no memory").comment
        == "kproxy withheld this from the client: there is no memory"
    )


@pytest.mark.parametrize(("api_key", "version"), WALKED)
@pytest.mark.parametrize("cut", [0, 1, 100])
@pytest.mark.parametrize("memory", [10, 100, 300])
def test_a_response_that_cannot_be_held_is_walked(api_key: int, version: int, cut: int, memory: int) -> None:
    nodes = NODES[:1], ours(api_key)[:1]
    answer, new = (naming(api_key, version, 1, each, responses=[topic(api_key, version, 300)]) for each in nodes)
    story = Playbook(memory=memory).client(request(api_key, version, 1), PASSES)
    if memory == 10:
        story.broker(answer, to_client(ANY), end(ANY), withheld(ANY), cut=cut).broker_ended()
        assert answer.startswith(story.to_client)
        assert b"kafka-1" not in story.to_client
        story.counted(held=1, walked=1, withheld=1)
        return
    story.broker(answer, to_client(ANY), REWRITTEN, cut=cut).broker_ended().counted(held=1, walked=1, rewritten=1)
    got = plain(decoded(story.to_client, api_key, version))
    got.pop("_unknownTaggedFields", None)
    assert got == plain(decoded(new, api_key, version))
    assert b"kafka-1" not in story.to_client


def test_a_watched_response_passes_where_there_is_no_memory() -> None:
    answer = framed(b"\0\0\0\x01" + bytes(100))
    story = Playbook(memory=10).client(request(12345, 3, 1), PASSES)
    story.broker(answer[:14], PASSES, notice("unsearched-API 12345 v3"), cut=7).broker(answer[14:], PASSES, cut=7)
    story.counted(held=1, unsearched=1)


@pytest.mark.parametrize(("api_key", "version"), IN_ARRAYS)
def test_a_response_with_too_many_nodes_ends_the_connection(
    api_key: int, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "MOST_READ", 2)
    story = Playbook().client(request(api_key, version, 1), PASSES)
    story.broker(naming(api_key, version, 1, NODES), end(ANY), withheld(ANY)).counted(held=1, withheld=1)
    assert story.book.nodes == story.book.controllers == {}


@pytest.mark.parametrize(("api_key", "version"), ALL)
@pytest.mark.parametrize(
    "node", [(1, "kafka-1", 0), (1, "kafka-1", 70_000), (-5, "kafka-1", 9092), (1, "k" * 256, 9092)]
)
def test_an_invalid_address_is_replaced_and_not_remembered(
    api_key: int, version: int, node: tuple[int, str, int]
) -> None:
    if api_key == DESCRIBE_QUORUM:  # its ports have two bytes
        node = (*node[:2], node[2] % 70_000)
    story = Playbook().client(request(api_key, version, 1), PASSES)
    story.broker(naming(api_key, version, 1, [node]), to_client(ANY), REWRITTEN)
    assert node[1].encode() not in story.to_client
    assert story.book.nodes == story.book.controllers == {}
    story.client(request(12345, 0, 2), PASSES)
    story.broker(framed(b"\0\0\0\x02\x07kafka-1" + bytes(4)), PASSES)  # a port of 0 is no address


@pytest.mark.parametrize(("api_key", "version"), ALL)
@pytest.mark.parametrize("nowhere", [1, None])
def test_nodes_without_a_listener_lead_nowhere(api_key: int, version: int, nowhere: int | None) -> None:
    def port() -> int:
        if nowhere is None:
            raise OSError(24, "Too many open files")
        return nowhere

    story = Playbook().client(request(api_key, version, 1), PASSES)
    story.book.open_listener, story.book.nowhere = lambda _: None, port
    answer = naming(api_key, version, 1, NODES)
    if nowhere is None:
        story.broker(answer, end(ANY), withheld("Too many open files")).counted(held=1, withheld=1)
    else:
        new = naming(api_key, version, 1, [(node_id, "127.0.0.1", nowhere) for node_id, _, _ in NODES])
        story.broker(answer, to_client(new), REWRITTEN).counted(held=1, rewritten=1)
    assert story.book.nodes == story.book.controllers == {}


def test_small_pieces_of_a_held_response_take_no_more_memory_than_they_have_bytes() -> None:
    size = 100_000
    story = Playbook().client(request(3, 9, 1), PASSES).broker(framed(b"\0\0\0\x01" + bytes(size))[:8])
    tracemalloc.start()
    try:
        for _ in range(size - 1):
            story.connection.from_broker(b"\0")
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
    story = Playbook().client(said, ANYTHING).broker(answered, ANYTHING)
    assert story.connection.begun == begun


def test_a_held_response_leaves_when_the_broker_ends() -> None:
    answer = metadata(1, NODES)
    for size in range(1, len(answer)):
        story = Playbook().client(request(3, 9, 1), PASSES).broker(answer[:size])
        story.broker_ended(to_client(answer[:size])).counted(held=size >= 8)


def test_a_change_has_its_place_in_the_bytes_that_came_last() -> None:
    answer, new = metadata(1, NODES), metadata(1, OURS)
    for size in range(1, len(answer)):
        story = Playbook().client(request(3, 9, 1), PASSES).broker(answer[:size])
        story.broker(answer[size:], to_client(new), rewritten(at=(0, len(answer) - size)))


def test_a_leak_is_noticed() -> None:
    text = "\x07kafka-9\0\0" + chr(8000 >> 8) + chr(8000 & 0xFF)
    answer = response(10, 1, 1, {"nodeId": -1, "errorMessage": text, "port": -1})
    story = Playbook().client(request(10, 1, 1), PASSES)
    story.book.known.remember("kafka-9", 8000)
    leak = notice("leaked-FindCoordinator v1-kafka-9:8000"), leaked("kafka-9", 8000)
    story.broker(answer, PASSES, *leak).counted(held=1, leaked=1)


def test_a_template_names_each_broker() -> None:
    new = [(node_id, f"{node_id}.kafka.local", port) for node_id, _, port in OURS]
    story = Playbook(advertise="{broker}.kafka.local:{port}").client(request(3, 12, 1), PASSES)
    story.broker(naming(3, 12, 1, NODES), to_client(naming(3, 12, 1, new)), REWRITTEN)


@settings(max_examples=37, deadline=None)
@given(st.data())
def test_any_bytes_pass_whatever_they_are(data: st.DataObject) -> None:
    story = Playbook(hold_max=data.draw(st.sampled_from([1, 20, 1000])))
    cases = list(carriers())
    sent = b""
    for number in range(data.draw(st.integers(1, 4))):
        api_key, version, _ = data.draw(st.sampled_from(cases))
        story.client(request(api_key, version, number), PASSES)
        answer = bytearray(naming(api_key, version, number, [(-1, "", -1)]))
        for at in data.draw(st.lists(st.integers(8, len(answer) - 1), max_size=3)):
            answer[at] = data.draw(st.integers(0, 255))
        sent += answer
    sent += data.draw(st.binary(max_size=40))
    story.broker(sent, ANYTHING, cut=data.draw(st.sampled_from([0, 1, 5, 13]))).broker_ended(ANYTHING)
    if not {"rewritten", "withheld"} & {kind for kind, *_ in story.outcomes}:
        assert story.to_client == sent
    assert story.shared.budget.held == 0


@pytest.mark.parametrize(("changes", "last"), [(200, "port: 1 -> 200"), (201, "(1 more)"), (250, "(50 more)")])
def test_a_comment_lists_200_changes_and_counts_the_others(changes: int, last: str) -> None:
    first, *lines = changed_comment("client", [Change("port", 1, new) for new in range(1, changes + 1)]).split("\n")
    assert first.endswith("on the way to the client:")
    assert lines[:200] == [f"port: 1 -> {new}" for new in range(1, 201)]
    assert lines[-1] == last
    assert len(lines) == min(changes, 201)


def test_a_connection_is_idle_between_frames_where_nothing_waits() -> None:
    """Byte by byte through two requests and their responses."""
    story = Playbook()
    states = []
    for feed, data in (
        (story.client, request(12, 0, 1)),
        (story.broker, response(12, 0, 1, {})),
        (story.client, request(3, 9, 2)),
        (story.broker, response(3, 9, 2, {})),
    ):
        for at in range(len(data)):
            states.append(story.connection.idle)
            feed(data[at : at + 1], ANYTHING)
        assert story.connection.idle == (feed == story.broker)
    asked, answered = len(request(12, 0, 1)), len(response(12, 0, 1, {}))
    first, second = asked + answered, len(request(3, 9, 2)) + len(response(3, 9, 2, {}))
    assert states == [at in {0, first} for at in range(first + second)]


def test_received_grows_with_each_byte_of_the_first_request() -> None:
    story = Playbook()
    data = request(3, 9, 1)
    seen = [story.connection.received]
    for at in range(len(data) - 1):
        story.client(data[at : at + 1], PASSES)
        seen.append(story.connection.received)
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


def test_an_unknown_api_is_watched_by_its_number() -> None:
    plan = Plans(DEFINITIONS).get(900, 3)
    assert plan == Watch("API 900 v3")


def test_sizes_of_fixed_fields() -> None:
    codes = {
        "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
        "float64": "d", "uuid": "16s",
    }  # fmt: skip
    assert {name: struct.calcsize(f">{code}") for name, code in codes.items()} == addresses.FIXED


def test_a_budget_bounds_what_all_connections_hold_together() -> None:
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
def test_invalid_addresses_to_advertise(text: str) -> None:
    with pytest.raises(ValueError, match=r"no (address|port)"):
        split_address(text)


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (255, "ff01"), (16_383, "ff7f"), (16_384, "808001")],
)
def test_varints(value: int, data: str) -> None:
    assert varint(value) == bytes.fromhex(data)


@pytest.mark.parametrize(("beyond", "way"), [(0, "held"), (-1, "walked")])
def test_a_response_longer_than_hold_max_is_walked(beyond: int, way: str) -> None:
    answer = naming(1, 16, 1, NODES[:1])
    story = Playbook(hold_max=len(answer) + beyond).client(request(1, 16, 1), PASSES)
    story.broker(answer, to_client(ANY), REWRITTEN).counted(**{way: 1}, rewritten=1)


@pytest.mark.parametrize("cut", range(60))
@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [(3, 9, bytes(4) + b"\xff\xff\xff\xff\x7f" + bytes(30)), (0, 11, b"\xff\xff\xff\xff\x07" + bytes(100))],
    ids=["a varint that is too long", "more entries than bytes"],
)
def test_a_response_behind_an_unreadable_one_is_rewritten(api_key: int, version: int, body: bytes, cut: int) -> None:
    unreadable = framed(b"\0\0\0\1\0" + body)
    story = Playbook().client(request(api_key, version, 1) + request(3, 9, 2), PASSES)
    story.broker(unreadable + metadata(2, NODES), ANYTHING, cut=cut).counted(held=2, unread=1, rewritten=1)
    assert story.to_client == unreadable + metadata(2, OURS)
    assert story.connection.idle


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
def test_bytes_that_start_no_frame(start: bytes, length: int, first: bool, found: bool) -> None:
    assert no_frame(start + bytes(4), length, first=first) == (
        f"bytes that do not begin a frame ({start!r})" if found else None
    )


@pytest.mark.parametrize(
    ("side", "text"),
    [
        (0, "sends TLS, not Kafka's plain protocol: --tls-in auto lets clients speak TLS with kproxy"),
        (1, "sends TLS, not Kafka's plain protocol: --tls-out lets kproxy speak TLS with it"),
    ],
)
def test_a_notice_on_tls_names_the_option_that_helps(side: int, text: str) -> None:
    connection = Playbook().connection
    commands = (connection.from_broker if side else connection.from_client)(b"\x16\x03\x01\x02\x00\x01\x00\x01")
    assert [(one.topic, one.text, one.once) for one in commands if isinstance(one, Notice)] == [
        (f"not-kafka-{side}-TLS", text, False)
    ]


def test_an_empty_answer_to_a_sasl_token_does_not_wait() -> None:
    """The token's first bytes read like an unknown API; the broker accepts it with a frame of no byte."""
    story = Playbook().client(request(17, 0, 1), PASSES).broker(response(17, 0, 1, {}), PASSES)
    story.client(framed(b"\0user\0secret"), PASSES).broker(framed(b""), PASSES)
