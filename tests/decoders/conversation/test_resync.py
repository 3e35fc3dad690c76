"""Lost bytes cost the exchanges that they touch, and no other."""

from __future__ import annotations

import pytest

from kproxy.decoders.conversation.limits import Limits
from kproxy.decoders.problems import Code
from kproxy.decoders.stream import Gap, Run
from tests.support.golden import golden
from tests.support.scripts import (
    BROKER,
    CLIENT,
    Cut,
    Script,
    at_random,
    bytewise,
    framed,
    packets,
    play,
    request,
    response,
    whole,
)

METADATA, FETCH, PRODUCE, HEARTBEAT = 3, 1, 0, 12
GROUPS = [{"groupId": "a-group", "protocolType": "consumer"}]


def metadata(correlation_id: int) -> bytes:
    return request(METADATA, 12, correlation_id, topics=None)


def answer(correlation_id: int, topics: int = 3) -> bytes:
    body = [{"errorCode": 3, "name": f"orders-{number}", "partitions": []} for number in range(topics)]
    return response(METADATA, 12, correlation_id, topics=body, clusterId="cluster")


def produce(correlation_id: int, size: int) -> bytes:
    records = bytes(number * 7 % 251 for number in range(size))
    topic = {"name": "orders", "partitionData": [{"index": 0, "records": records}]}
    return request(PRODUCE, 9, correlation_id, acks=-1, timeoutMs=100, topicData=[topic])


@pytest.mark.parametrize("cut", [whole, packets, bytewise])
class TestGaps:
    def test_within_a_frame_costs_that_frame_only(self, cut: Cut) -> None:
        data = produce(1, 4000)
        script = Script().client(data[:100]).lost(CLIENT, data[100:3000]).client(data[3000:], metadata(2))
        script.broker(response(PRODUCE, 9, 1), answer(2)).end()
        played = play(script, cut)
        assert played.lines() == ["1 Produce v9 #1 cut (gap)", "2 Metadata v12 #2 ok"]
        (problem,) = played.exchanges[0].problems
        assert (problem.where, problem.offset, problem.message) == ("request", 100, "2900 bytes are missing")
        assert (played.health.gaps, played.health.lost, played.health.resyncs, played.health.cut) == (1, 2900, 0, 1)

    def test_within_a_response(self, cut: Cut) -> None:
        data = answer(1)
        script = Script().client(metadata(1)).broker(data[:20]).lost(BROKER, data[20:30]).broker(data[30:])
        script.client(metadata(2)).broker(answer(2)).end()
        assert play(script, cut).lines() == ["1 Metadata v12 #1 cut (gap)", "2 Metadata v12 #2 ok"]

    def test_of_whole_frames_between_others(self, cut: Cut) -> None:
        script = Script().client(metadata(1)).broker(answer(1)).lost(CLIENT, metadata(2) + metadata(3))
        script.broker(answer(2), answer(3)).client(metadata(4)).broker(answer(4)).end()
        played = play(script, cut)
        lines = [line.split(" ", 1)[1] for line in played.lines()]
        assert sum("orphan_response" in line for line in lines) == 2
        assert [line for line in lines if "Metadata" in line] == ["Metadata v12 #1 ok", "Metadata v12 #4 ok"]
        assert sorted(problem.code for problem in played.problems) == [Code.GAP, Code.RESYNC]

    def test_that_takes_a_length(self, cut: Cut) -> None:
        first, second, third = answer(1), answer(2), answer(3)
        script = Script().client(metadata(1), metadata(2), metadata(3))
        script.broker(first[:30]).lost(BROKER, first[30:] + second[:2]).broker(second[2:], third).end()
        played = play(script, cut)
        assert [line for line in played.lines() if "!" not in line] == [
            "1 Metadata v12 #1 cut (gap)",
            "3 Metadata v12 #3 ok",
            "2 Metadata v12 #2 no_response",
        ]
        gap, resync = played.problems
        assert (gap.code, gap.size) == (Code.GAP, len(first) - 30 + 2)
        assert (resync.code, resync.offset, resync.size) == (Code.RESYNC, len(first) + 2, len(second) - 2)

    def test_that_ends_where_a_frame_begins_keeps_it(self, cut: Cut) -> None:
        script = Script().client(metadata(1), metadata(2)).lost(BROKER, answer(1)).broker(answer(2)).end()
        played = play(script, cut)
        assert [line for line in played.lines() if "!" not in line] == [
            "2 Metadata v12 #2 ok",
            "1 Metadata v12 #1 no_response",
        ]

    def test_at_the_very_beginning(self, cut: Cut) -> None:
        script = Script().lost(CLIENT, metadata(1)).client(metadata(2)).broker(answer(1), answer(2)).end()
        played = play(script, cut)
        assert "1 Metadata v12 #2 ok" in played.lines()
        assert played.health.gaps == 1

    def test_two_in_one_frame(self, cut: Cut) -> None:
        data = produce(1, 4000)
        script = Script().client(data[:100]).lost(CLIENT, data[100:200]).client(data[200:300])
        script.lost(CLIENT, data[300:400]).client(data[400:]).broker(response(PRODUCE, 9, 1)).end()
        assert play(script, cut).lines() == ["1 Produce v9 #1 cut (gap, gap)"]

    def test_at_the_end(self, cut: Cut) -> None:
        data = answer(1)
        script = Script().client(metadata(1)).broker(data[:20]).lost(BROKER, data[20:]).end()
        assert play(script, cut).lines() == ["1 Metadata v12 #1 cut (gap)"]


@pytest.mark.parametrize("cut", [whole, packets, bytewise])
class TestHeldBack:
    """After a gap a request is delivered only when nothing can fill the gap any more: after its response."""

    def held_back(self, wait: int) -> Script:
        script = Script().client(metadata(1)).broker(answer(1)).lost(CLIENT, metadata(2)).client(metadata(3))
        gap, late = script.events[-2:]
        assert isinstance(gap, Gap)
        assert isinstance(late, Run)
        del script.events[-2:]
        script.broker(answer(2), answer(3)).wait(wait).broker(answer(9))
        script.tape.data += b" "
        gap.at = late.released = len(script.tape.data) - 1
        script.events += [gap, late]
        return script.end()

    def test_its_response_waits(self, cut: Cut) -> None:
        lines = [line for line in play(self.held_back(1500), cut).lines() if "!" not in line]
        assert lines == [
            "1 Metadata v12 #1 ok",
            "2 Metadata v12 #3 ok",
            "3 ? #2 orphan_response (unmatched_response)",
            "4 ? #9 orphan_response (unmatched_response)",
        ]

    def test_but_not_for_ever(self, cut: Cut) -> None:
        lines = [line for line in play(self.held_back(31_000), cut).lines() if "!" not in line]
        assert lines == [
            "1 Metadata v12 #1 ok",
            "2 ? #2 orphan_response (unmatched_response)",
            "3 ? #3 orphan_response (unmatched_response)",
            "5 ? #9 orphan_response (unmatched_response)",
            "4 Metadata v12 #3 no_response",
        ]

    @pytest.mark.parametrize(("lost", "answered"), [(50_000, True), (90_000, False)])
    def test_how_far_back_its_response_is_looked_for(self, cut: Cut, lost: int, *, answered: bool) -> None:
        """The request counts only when the connection ends within it; until then its response is not found."""
        script = Script().client(metadata(1)).broker(answer(1)).client(produce(2, 4000)[:300])
        script.broker(b"\xff" * 500, response(PRODUCE, 9, 2), b"\xff" * 500).lost(BROKER, bytes(lost)).end()
        played = play(script, cut)
        (exchange,) = (one for one in played.exchanges if one.api_key == PRODUCE)
        assert (exchange.response is not None) == answered


@pytest.mark.parametrize("cut", [whole, packets, bytewise])
class TestMidStream:
    def test_at_a_frames_beginning(self, cut: Cut) -> None:
        script = Script().client(metadata(1)).broker(answer(1)).end()
        played = play(script, cut, opened=False)
        assert played.lines() == ["1 Metadata v12 #1 ok"]
        assert played.health.resyncs == 0

    def test_with_a_response_whose_request_was_not_captured(self, cut: Cut) -> None:
        script = Script().broker(answer(1)).client(metadata(2)).broker(answer(2)).end()
        played = play(script, cut, opened=False)
        assert sorted(line.split(" ", 1)[1] for line in played.lines()) == [
            "? #1 orphan_response (unmatched_response)",
            "Metadata v12 #2 ok",
        ]

    def test_which_is_not_waited_for(self, cut: Cut) -> None:
        script = Script().broker(answer(1)).client(metadata(2)).broker(answer(2)).wait(10)
        script.client(metadata(3)).broker(answer(3)).end()
        lines = [line.split(" ", 1)[1] for line in play(script, cut, opened=False).lines()]
        assert "? #1 orphan_response (unmatched_response)" in lines[:2]
        assert lines[-1] == "Metadata v12 #3 ok"

    def test_within_frames(self, cut: Cut) -> None:
        script = Script().client(produce(1, 500)[300:], metadata(2)).broker(answer(1)[30:], answer(2))
        script.client(metadata(3)).broker(answer(3)).end()
        played = play(script, cut, opened=False)
        assert [line for line in played.lines() if "!" not in line] == ["1 Metadata v12 #2 ok", "2 Metadata v12 #3 ok"]
        assert [problem.code for problem in played.problems] == [Code.RESYNC, Code.RESYNC]

    def test_what_is_not_kafka(self, cut: Cut) -> None:
        script = Script().client(b"x" * 500).broker(b"y" * 500).end()
        played = play(script, cut, opened=False)
        assert played.lines() == []
        assert played.health.not_kafka == 1


@pytest.mark.parametrize("cut", [whole, packets, bytewise])
class TestLengths:
    @pytest.mark.parametrize(
        ("length", "code"), [(0x7FFFFFFF, "oversize_frame"), (-1, "bad_length"), (0x47455420, "oversize_frame")]
    )
    def test_absurd(self, cut: Cut, length: int, code: str) -> None:
        script = Script().client(metadata(1)).broker(answer(1))
        script.client(length.to_bytes(4, "big", signed=True), b"?" * 50, metadata(2)).broker(answer(2)).end()
        played = play(script, cut)
        assert [line for line in played.lines() if "!" not in line] == ["1 Metadata v12 #1 ok", "2 Metadata v12 #2 ok"]
        assert [problem.code for problem in played.problems] == [code, "resync"]
        assert played.problems[1].size == 54

    def test_the_limit_can_be_set(self, cut: Cut) -> None:
        script = Script().client(metadata(1)).client(produce(2, 2000)).client(metadata(3)).end()
        assert "2 Produce v9 #2 no_response" in play(script, cut).lines()
        played = play(script, cut, limits=Limits(frame=1000))
        assert [problem.code for problem in played.problems] == ["oversize_frame", "resync"]
        assert played.lines()[-1] == "2 Metadata v12 #3 no_response"

    def test_too_short_for_a_header(self, cut: Cut) -> None:
        script = Script().client(metadata(1)).client(framed(b"abc")).client(metadata(2))
        script.broker(answer(1), framed(b"ab"), answer(2)).end()
        assert sorted(line.split(" ", 1)[1] for line in play(script, cut).lines()) == [
            "? no_response (bad_length)",
            "? orphan_response (bad_length, unmatched_response)",
            "Metadata v12 #1 ok",
            "Metadata v12 #2 ok",
        ]


@pytest.mark.parametrize("cut", [whole, packets, bytewise])
class TestSnapLength:
    def test_frames_keep_their_alignment(self, cut: Cut) -> None:
        data = produce(1, 4000)
        script = Script()
        for at in range(0, len(data), 1448):
            script.client(data[at : at + 1448], stored=96)
        script.broker(response(PRODUCE, 9, 1), stored=96).client(metadata(2)).broker(answer(2), stored=20).end()
        played = play(script, cut)
        assert played.lines() == ["1 Produce v9 #1 cut (cut_by_snaplen)", "2 Metadata v12 #2 cut (cut_by_snaplen)"]
        request = played.exchanges[0].request
        assert request is not None
        assert request.missing == len(data) - 96 * 3
        assert played.exchanges[0].problems[0].offset == 96

    def test_a_length_that_was_not_stored(self, cut: Cut) -> None:
        script = Script().client(metadata(1), metadata(2), stored=len(metadata(1)) + 2)
        script.broker(answer(1), answer(2)).client(metadata(3)).broker(answer(3)).end()
        played = play(script, cut)
        lines = [line for line in played.lines() if "Metadata" in line]
        assert lines[0] == "1 Metadata v12 #1 ok"
        assert lines[-1].endswith("Metadata v12 #3 ok")


@pytest.mark.parametrize("cut", [whole, packets, bytewise])
def test_a_chain_counts_where_the_packet_that_proves_it_also_breaks_it(cut: Cut) -> None:
    damaged = metadata(2)[:-4] + b"\xee\xee\xee\xee"
    script = Script().client(metadata(1)).lost(CLIENT, bytes(50)).client(damaged + metadata(3) + b"\xee" * 40).end()
    lines = play(script, cut).lines()
    assert any("Metadata v12 #2" in line for line in lines), lines
    assert lines == play(script, bytewise).lines()


def test_each_golden_frame_is_found_again_after_a_gap() -> None:
    """For every API and version, the exchange after the lost one is complete."""
    pairs: dict[int, dict[str, bytes]] = {}
    keys: dict[int, tuple[int, int]] = {}
    for one in golden("4.4.0"):
        pairs.setdefault(one.correlation_id, {})[one.kind] = one.frame
        keys[one.correlation_id] = (one.api_key, one.api_version)
    for correlation_id, pair in pairs.items():
        script = Script().client(metadata(-5)).broker(answer(-5))
        script.lost(CLIENT, metadata(-6)).client(pair["request"])
        script.lost(BROKER, answer(-6)).broker(pair["response"]).end()
        (_, exchange) = play(script).exchanges
        assert (exchange.api_key, exchange.api_version) == keys[correlation_id]
        assert exchange.response is not None, keys[correlation_id]


def test_comments_and_overlaps_belong_to_their_frame() -> None:
    script = Script().client(metadata(1)).broker(answer(1)).client(metadata(2))
    script.packet(BROKER, answer(2), comment="brokers[0].port: 9092 -> 19093").end()
    script.events[2].overlaps = [(len(metadata(1)) + 6, len(metadata(1)) + 9)]  # type: ignore[union-attr]
    for cut in (whole, packets, bytewise):
        played = play(script, cut)
        first, second = played.exchanges
        assert first.response is not None
        assert second.response is not None
        assert tuple(first.response.comments) == ()
        assert tuple(second.response.comments) == ("brokers[0].port: 9092 -> 19093",)
        if cut is packets:
            assert [(problem.code, problem.where, problem.offset) for problem in second.problems] == [
                (Code.OVERLAP, "request", 6)
            ]


def test_a_header_that_denies_itself_costs_no_effort() -> None:
    """Junk and the next length read as a header until the client id has arrived, which may be in a later packet."""
    asked = request(16, 1, 4, "probe")
    script = Script().client(bytes.fromhex("0000000d0000"), asked).broker(response(16, 1, 4, groups=GROUPS)).end()
    expected = play(script, opened=False).facts()
    assert any("ListGroups v1 #4 ok" in line for line in play(script, opened=False).lines())
    assert play(script, bytewise, opened=False).facts() == expected
    for seed in range(50):
        assert play(script, at_random(seed), opened=False).facts() == expected


@pytest.mark.parametrize("answered", [0, 1, 2])
def test_an_overlap_is_the_exchanges_that_wait(answered: int) -> None:
    """What counts is whether the overlap came before the response, not how the capture is cut into batches."""
    border = len(metadata(1))
    script = Script().client(metadata(1)).client(metadata(2))
    for correlation_id in range(1, answered + 1):
        script.broker(answer(correlation_id))
    script.again(CLIENT, border - 2, border + 3).client(metadata(3))
    for correlation_id in range(answered + 1, 4):
        script.broker(answer(correlation_id))
    played = play(script.end())
    assert [[(one.code, one.where, one.offset) for one in exchange.problems] for exchange in played.exchanges] == [
        [(Code.OVERLAP, "request", border - 2)] if answered < 1 else [],
        [(Code.OVERLAP, "request", 0)] if answered < 2 else [],
        [],
    ]
    assert [(one.code, one.offset, one.size) for one in played.problems] == [(Code.OVERLAP, border - 2, 5)][:answered]
    for cut in (packets, bytewise, *map(at_random, range(20))):
        assert play(script, cut).facts() == played.facts()


def test_an_overlap_among_answers_is_the_streams() -> None:
    script = Script().client(metadata(1)).broker(answer(1)).again(BROKER, 5, 9).end()
    played = play(script)
    assert played.lines() == ["1 Metadata v12 #1 ok", "! broker 5+4 overlap"]
    for cut in (packets, bytewise, *map(at_random, range(20))):
        assert play(script, cut).facts() == played.facts()
