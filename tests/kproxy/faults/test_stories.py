"""Stories of connections under rules: what reaches the broker, what the client gets, what is recorded, when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kproxy.core.verdict import MOST_PIECES, Pace
from kproxy.decoders.conversation.comments import ACTED, CHANGED, KEPT, MADE
from kproxy.faults.parsing import parse
from tests.kproxy.core.frames import naming, response
from tests.kproxy.faults.support import (
    FETCH,
    HEARTBEAT,
    METADATA,
    PRODUCE,
    Tale,
    answered,
    asked,
    asking,
    beaten,
    beating,
    frames,
    produced,
    producing,
)
from tests.support.playbook import ANYTHING, FIN, PASSES, RESET, altered, notice, to_broker, to_client

NOT_LEADER, TIMED_OUT, REBALANCE = 6, 7, 27


@pytest.mark.parametrize("cut", [0, 1, 7])
def test_an_error_not_applied_never_reaches_the_broker(cut: int) -> None:
    tale = Tale("api == Produce and topic == t => error NOT_LEADER_OR_FOLLOWER not applied, nth 2")
    story = tale.story.client(producing(1), PASSES, cut=cut).broker(produced(1), PASSES, cut=cut)
    story.client(producing(2), to_client(produced(2, error=NOT_LEADER)), cut=cut)
    story.client(producing(3), PASSES, cut=cut).broker(produced(3), PASSES, cut=cut).counted(held=0)
    assert tale.hits == [1]
    assert story.connection.idle
    request, answer = story.recorded
    said = "rule-1: error NOT_LEADER_OR_FOLLOWER not applied"
    assert request == (0, producing(2), f"{KEPT} broker:\n{said}")
    assert answer == (1, produced(2, error=NOT_LEADER), f"{MADE}\n{said}")
    assert answer[2].startswith(CHANGED), "the exchange counts as modified"


def test_an_error_applied_changes_the_broker_s_answer() -> None:
    tale = Tale("api == Produce => error REQUEST_TIMED_OUT applied")
    story = tale.story.client(producing(1, 0, 1), PASSES)
    story.broker(produced(1, 0, 1), to_client(produced(1, 0, 1, error=TIMED_OUT)))
    ((side, data, comment),) = story.recorded
    assert (side, data) == (1, produced(1, 0, 1))
    assert "rule-1: responses[0].partitionResponses[0].errorCode: 0 -> 7" in comment


@pytest.mark.parametrize("cut", [0, 3])
def test_a_partial_error_takes_its_element_out_and_puts_it_back(cut: int) -> None:
    tale = Tale("api == Produce => error NOT_LEADER_OR_FOLLOWER at topic == t and partition == 1 not applied")
    story = tale.story.client(producing(1, 0, 1, 2), ANYTHING, cut=cut)
    sent = asked(story.to_broker).body or {}
    assert [one["index"] for one in sent["topicData"][0]["partitionData"]] == [0, 2]
    story.broker(produced(1, 0, 2), ANYTHING, cut=cut)
    body = answered(story.to_client, PRODUCE, 9).body or {}
    found = {one["index"]: (one["errorCode"], one["baseOffset"]) for one in body["responses"][0]["partitionResponses"]}
    assert found == {0: (0, 7), 1: (NOT_LEADER, -1), 2: (0, 7)}
    assert [comment.startswith(CHANGED) for _, comment in tale.comments] == [True, True]


def test_a_partial_error_for_all_that_is_asked_never_reaches_the_broker() -> None:
    tale = Tale("api == Produce => error 6 at partition == 1 not applied, nth 1")
    tale.story.client(producing(1, 0), PASSES).client(producing(2, 1), ANYTHING)
    tale.story.broker(produced(1, 0), to_client(produced(1, 0) + produced(2, 1, error=6)))
    assert tale.hits == [1], "a request without the element is no match"


def test_an_own_answer_waits_for_earlier_responses() -> None:
    tale = Tale("api == Heartbeat => error REBALANCE_IN_PROGRESS not applied")
    story = tale.story.client(producing(1) + beating(2) + producing(3), to_broker(producing(1) + producing(3)))
    first, third = produced(1), produced(3)
    story.broker(first[:9], ANYTHING).broker(first[9:] + third, ANYTHING)
    assert story.to_client == first + beaten(2, REBALANCE) + third
    assert story.connection.idle
    own = [place for place, (_, data, _) in enumerate(story.recorded) if data == beaten(2, REBALANCE)]
    assert len(own) == 1


def test_an_own_answer_does_not_wait_for_produce_that_nobody_answers() -> None:
    tale = Tale("api == Heartbeat => error 27 not applied")
    story = tale.story.client(producing(1, acks=0), PASSES)
    story.client(beating(2), to_client(beaten(2, REBALANCE)))


def test_an_own_answer_does_not_wait_for_a_request_that_was_dropped() -> None:
    tale = Tale("api == Produce => drop request", "api == Heartbeat => error 27 not applied")
    tale.story.client(producing(1)).client(beating(2), to_client(beaten(2, REBALANCE)))
    assert tale.comments[0] == (0, f"{KEPT} broker:\nrule-1: drop request")


def test_a_broker_that_skips_a_request_does_not_stop_own_answers() -> None:
    tale = Tale("api == Heartbeat => error 27 not applied")
    story = tale.story.client(producing(1) + beating(2) + producing(3), ANYTHING)
    story.broker(produced(3), to_client(beaten(2, REBALANCE) + produced(3)))


def test_acks_0_is_dropped_where_it_must_not_be_applied() -> None:
    tale = Tale("api == Produce => error 6 not applied", "api == Produce => drop response")
    tale.story.client(producing(1, acks=0)).client(beating(2), PASSES).broker(beaten(2), PASSES)
    assert tale.hits == [1, 0], "there is no response to drop"


def test_a_dropped_response_was_done_by_the_broker() -> None:
    tale = Tale("api == Produce => drop response, first 1")
    tale.story.client(producing(1) + producing(2), PASSES).broker(produced(1) + produced(2), to_client(produced(2)))
    assert tale.story.recorded == [(1, produced(1), f"{KEPT} client:\nrule-1: drop response")]
    assert tale.story.connection.idle


def test_a_delayed_response_delays_those_behind_it() -> None:
    tale = Tale("api == Produce => delay 500ms")
    story = tale.story.client(producing(1) + beating(2), PASSES).broker(produced(1) + beaten(2))
    assert story.connection.due == 0.5  # type: ignore[attr-defined]
    story.later(0.4).later(0.2, to_client(produced(1) + beaten(2))).counted(held=0)
    assert tale.comments == [(1, f"{ACTED} client:\nrule-1: delay 500ms response")]


def test_jitter_and_chance_follow_the_seed() -> None:
    def times(seed: int) -> list[object]:
        tale = Tale("api == Heartbeat => delay 1s ±500ms, p 0.5", seed=seed)
        for number in range(40):
            tale.story.client(beating(number), PASSES).broker(beaten(number), ANYTHING).later(10, ANYTHING)
        return [*tale.hits, *tale.comments]

    assert times(1) == times(1)
    assert times(1) != times(2)
    assert 5 < int(str(times(1)[0])) < 35


def test_a_held_request_waits_for_its_release() -> None:
    tale = Tale("barrier: api == Heartbeat => hold request")
    woken: list[bool] = []
    tale.story.connection.wake = lambda: woken.append(True)  # type: ignore[attr-defined]
    tale.story.client(beating(1) + producing(2))
    assert tale.engine.active[0].to_json()["held"] == 1
    tale.story.later(29)
    assert tale.engine.release("barrier") == 1
    assert woken == [True]
    tale.story.later(0, altered(beating(1)), to_broker(producing(2))).counted()


def test_a_deadline_ends_a_hold_with_a_warning() -> None:
    tale = Tale("barrier: api == Heartbeat => hold response 2s")
    tale.story.client(beating(1), PASSES).broker(beaten(1)).later(1)
    tale.story.later(1, notice("deadline-barrier"), to_client(beaten(1)))
    assert tale.engine.release("barrier") == 0


def test_of_several_waits_the_longest_counts() -> None:
    tale = Tale("long: api == Heartbeat => hold request 20s", "short: api == Heartbeat => delay 5s request")
    tale.story.client(beating(1)).later(6)
    assert [tale.engine.release("short"), tale.engine.release("long")] == [0, 1]
    tale.story.later(0, altered(beating(1))).counted()


def test_frames_held_beyond_the_memory_go_on_with_a_warning() -> None:
    tale = Tale("barrier: api == Heartbeat => hold request", memory=len(beating(1)) + 10)
    tale.story.client(beating(1))
    tale.story.client(producing(2), altered(beating(1)), to_broker(producing(2)), notice("lane-barrier")).counted()


@pytest.mark.parametrize("rule", ["hold request", "delay 10s request"])
def test_nothing_waits_once_the_client_has_ended(rule: str) -> None:
    tale = Tale(f"api == Heartbeat => {rule}")
    tale.story.client(beating(1)).client_ended(altered(beating(1))).counted()


def test_nothing_waits_once_the_broker_has_ended() -> None:
    tale = Tale("api == Heartbeat => delay 10s", "api == Produce => error 6 not applied")
    tale.story.client(beating(1) + producing(2), ANYTHING).broker(beaten(1))
    tale.story.broker_ended(to_client(beaten(1) + produced(2, error=6))).counted()


def test_a_connection_that_is_gone_gives_its_memory_back() -> None:
    tale = Tale("api == Heartbeat => hold request")
    tale.story.client(beating(1)).connection.dropped()
    tale.story.counted()


@pytest.mark.parametrize(
    ("rule", "sent", "end"),
    [
        ("disconnect after", b"", FIN),
        ("disconnect after rst", b"", RESET),
        ("disconnect mid 6 fin", produced(1)[:6], FIN),
    ],
)
def test_a_connection_ends_at_an_answer(rule: str, sent: bytes, end: Any) -> None:
    tale = Tale(f"api == Produce => {rule}")
    story = tale.story.client(producing(1) + beating(2), PASSES)
    story.broker(produced(1) + beaten(2), *([to_client(sent)] if sent else []), end)
    story.client(beating(3)).broker(beaten(3))
    assert story.recorded[0][:2] == (1, produced(1))


def test_a_connection_ends_before_a_request_is_forwarded() -> None:
    tale = Tale("api == Produce => disconnect rst, nth 2")
    tale.story.client(producing(1), PASSES).client(producing(2) + beating(3), RESET).client(beating(4))
    assert tale.story.recorded == [(0, producing(2), f"{KEPT} broker:\nrule-1: disconnect before rst")]


def test_throttle_says_so_and_mutes() -> None:
    tale = Tale("api == Heartbeat => throttle 5s mute, nth 1")
    tale.story.client(beating(1), PASSES).broker(beaten(1), to_client(beaten(1, throttle=5000)))
    tale.story.client(beating(2)).later(4).later(1, to_broker(beating(2)))


def test_set_and_remove_write_the_frame_again() -> None:
    tale = Tale(
        "api == Heartbeat => set request.body.memberId = other",
        "api == Heartbeat => set response.body.errorCode = REBALANCE_IN_PROGRESS",
        "api == Produce => remove request.body.topicData[0].partitionData[0]",
    )
    tale.story.client(beating(1), ANYTHING).broker(beaten(1), to_client(beaten(1, REBALANCE)))
    assert (asked(tale.story.to_broker).body or {})["memberId"] == "other"
    assert tale.comments[0] == (0, f'{CHANGED} on the way to the broker:\nrule-1: memberId: "m" -> "other"')
    before = len(tale.story.to_broker)
    tale.story.client(producing(2, 4, 5), ANYTHING)
    body = asked(tale.story.to_broker[before:]).body or {}
    assert [one["index"] for one in body["topicData"][0]["partitionData"]] == [5]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ("set request.body.generationId = 99999999999", "is not a valid int32"),
        ("set request.body.groupId = null", "null, where the definition allows no null"),
        ("remove request.body.groupId", "cannot be removed"),
        ("set request.body.topics[].name = x", "this version has no field topics"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused_and_the_frame_kept(edit: str, why: str) -> None:
    tale = Tale(f"api == Heartbeat => {edit}")
    tale.story.client(beating(1), PASSES)
    assert why in tale.said[0]
    assert tale.hits == [0]


def test_a_secret_is_set_and_not_told() -> None:
    tale = Tale('api == SaslAuthenticate => set request.body.authBytes = "AGEAc2VjcmV0"')
    tale.story.client(asking(36, 2, 1, {"authBytes": b"\0a\0other"}), ANYTHING)
    assert b"\0a\0secret" in tale.story.to_broker
    assert "secret" not in tale.comments[0][1]


def test_malformed_answers() -> None:
    for rule, expected in {
        "duplicate": beaten(1) * 2,
        "correlation +1": beaten(2),
        "truncate 5": beaten(1)[:5],
        "length 1000": (1000).to_bytes(4, "big") + beaten(1)[4:],
        "flip 4": beaten(1)[:4] + bytes([beaten(1)[4] ^ 1]) + beaten(1)[5:],
    }.items():
        tale = Tale(f"api == Heartbeat => {rule}")
        tale.story.client(beating(1), PASSES).broker(beaten(1), to_client(expected))
        assert tale.comments[0][1].startswith(f"{ACTED} client:\nrule-1: {rule}")


def test_a_duplicated_request_is_answered_twice() -> None:
    tale = Tale("api == Heartbeat => duplicate request, nth 1", "api == Produce => error 6 not applied")
    story = tale.story.client(beating(1), altered(beating(1)), altered(beating(1))).client(producing(2))
    story.broker(beaten(1), PASSES).broker(beaten(1), to_client(beaten(1) + produced(2, error=6)))


@pytest.mark.parametrize(("behind", "after"), [(beating, beaten), (producing, produced)])
def test_swapped_answers_leave_in_the_other_order(
    behind: Callable[[int], bytes], after: Callable[[int], bytes]
) -> None:
    tale = Tale("api == Heartbeat => swap, nth 1")
    tale.story.client(beating(1) + behind(2), PASSES)
    tale.story.broker(beaten(1) + after(2)[:7], ANYTHING).broker(after(2)[7:], ANYTHING)
    assert tale.story.to_client == after(2) + beaten(1)


def test_a_swapped_answer_without_another_leaves_at_last() -> None:
    tale = Tale("api == Heartbeat => swap")
    tale.story.client(beating(1), PASSES).broker(beaten(1)).later(29).later(1, to_client(beaten(1)))


def test_a_response_can_decide() -> None:
    tale = Tale("api == Heartbeat and error == REBALANCE_IN_PROGRESS and group == g => drop response, nth 2")
    for number, error in enumerate([REBALANCE, 0, REBALANCE, REBALANCE]):
        tale.story.client(beating(number), PASSES)
        tale.story.broker(beaten(number, error), *([PASSES] if number != 2 else []))
    assert tale.hits == [1]


def test_an_own_answer_is_delayed_like_a_broker_s() -> None:
    tale = Tale("api == Heartbeat => delay 1s", "api == Heartbeat => error 27 not applied")
    tale.story.client(beating(1)).later(1, to_client(beaten(1, REBALANCE)))


def test_addresses_are_rewritten_after_rules() -> None:
    tale = Tale("api == Metadata => set response.body.brokers[0].port = 9093")
    given, new = (naming(METADATA, 1, 1, [(5, *address)]) for address in (("kafka", 9092), ("127.0.0.1", 20_005)))
    tale.story.client(asking(METADATA, 1, 1, {"topics": None}), PASSES).broker(given, to_client(new))
    assert tale.story.book.nodes[5].port == 9093


def test_a_fetch_of_a_session_gets_errors_for_partitions_that_it_does_not_name() -> None:
    tale = Tale("api == Fetch and topic == t => error OFFSET_OUT_OF_RANGE at partition == 1 not applied, nth 2")
    partitions = [{"partition": number, "fetchOffset": 0, "partitionMaxBytes": 1} for number in (0, 1)]
    first = {"sessionEpoch": 0, "topics": [{"topic": "t", "partitions": partitions}]}
    empty = response(FETCH, 11, 2, {"sessionId": 9})
    tale.story.client(asking(FETCH, 11, 1, first), PASSES).broker(response(FETCH, 11, 1, {"sessionId": 9}), PASSES)
    tale.story.client(asking(FETCH, 11, 2, {"sessionId": 9, "sessionEpoch": 1}), ANYTHING).broker(empty, ANYTHING)
    body = answered(frames(tale.story.to_client)[1], FETCH, 11).body or {}
    assert [(one["topic"], one["partitions"][0]["partitionIndex"], one["partitions"][0]["errorCode"])
            for one in body["responses"]] == [("t", 1, 1)]  # fmt: skip


def test_topic_ids_are_known_from_metadata() -> None:
    tale = Tale("api == Produce and topic == t => error 6 at topic == t and partition == 0 not applied")
    topic_id = bytes(range(16))
    topics = [{"name": "t", "topicId": topic_id, "errorCode": 0}]
    tale.story.client(asking(METADATA, 12, 1, {"topics": None}), PASSES)
    tale.story.broker(response(METADATA, 12, 1, {"topics": topics}), PASSES)
    data = [{"topicId": topic_id, "partitionData": [{"index": 0, "records": b""}]}]
    tale.story.client(asking(PRODUCE, 13, 2, {"acks": -1, "topicData": data}), ANYTHING)
    body = answered(frames(tale.story.to_client)[1], PRODUCE, 13).body or {}
    assert body["responses"][0]["topicId"] == topic_id
    assert body["responses"][0]["partitionResponses"][0]["errorCode"] == 6


def test_counts_per_key() -> None:
    tale = Tale(
        "api == Produce => drop request, once per client", "api == Heartbeat => drop request, nth 2 per connection"
    )
    for name, number in (("a", 1), ("b", 2), ("a", 3)):
        tale.story.client(producing(number, client_id=name), *([PASSES] if number == 3 else []))
    tale.story.client(beating(4), PASSES).client(beating(5)).client(beating(6), PASSES)
    tale = Tale("api == Produce => drop request, once per partition")
    tale.story.client(producing(1, 0)).client(producing(2, 0), PASSES).client(producing(3, 0, 1))
    tale.story.client(producing(4, 1), PASSES)


def test_triggers() -> None:
    def drops(trigger: str) -> list[int]:
        tale = Tale(f"api == Heartbeat => drop request, {trigger}")
        found = []
        for number in range(1, 7):
            before = tale.hits[0]
            tale.story.client(beating(number), ANYTHING).later(1)
            found += [number] if tale.hits[0] > before else []
        return found

    assert drops("nth 3") == [3]
    assert drops("first 2") == [1, 2]
    assert drops("every 2") == [2, 4, 6]
    assert drops("after 4") == [5, 6]
    assert drops("always") == [1, 2, 3, 4, 5, 6]
    assert drops("always, for 3s") == [1, 2, 3]
    assert drops("p 1") == [1, 2, 3, 4, 5, 6]


def test_rules_are_managed_while_they_run() -> None:
    tale = Tale("one: api == Heartbeat => drop request")
    tale.engine.pause("one")
    tale.story.client(beating(1), PASSES)
    tale.engine.pause("one", False)
    tale.story.client(beating(2))
    tale.engine.reset()
    assert tale.hits == [0]
    tale.engine.remove("one")
    tale.story.client(beating(3), PASSES)
    with pytest.raises(LookupError, match="there is no rule 'one'"):
        tale.engine.release("one")


def test_the_same_rules_hit_the_same_frames_a_hundred_times() -> None:
    def run() -> bytes:
        tale = Tale("api == Heartbeat => error 27 not applied, p 0.3", "api == Produce => drop response, every 3")
        for number in range(0, 20, 2):
            tale.story.client(beating(number) + producing(number + 1), ANYTHING)
            asked_of_broker = {beaten(number): beating(number), produced(number + 1): producing(number + 1)}
            answers = [answer for answer, ask in asked_of_broker.items() if ask in tale.story.to_broker]
            tale.story.broker(b"".join(answers), ANYTHING)
        return tale.story.to_client

    assert len({run() for _ in range(100)}) == 1


def test_what_no_rule_names_passes_byte_for_byte() -> None:
    tale = Tale("api == Metadata => drop request")
    up, down = producing(1) + beating(2), produced(1) + beaten(2)
    tale.story.client(up, PASSES, cut=3).broker(down, PASSES, cut=5)
    assert tale.story.recorded == []
    assert not tale.engine.active[0].counter.matches


def test_a_sasl_token_without_a_header_passes() -> None:
    tale = Tale("api == Heartbeat => error 27 not applied")
    token = b"\0\0\0\x0c\0user\0secret"
    tale.story.client(asking(17, 0, 1, {"mechanism": "PLAIN"}), PASSES).broker(response(17, 0, 1, {}), PASSES)
    tale.story.client(token, PASSES).broker(b"\0\0\0\0", PASSES)
    tale.story.client(beating(2), to_client(beaten(2, REBALANCE)))


def test_a_longer_frame_passes_and_is_named() -> None:
    tale = Tale("api == Produce => drop request", hold_max=20)
    tale.story.client(producing(1), PASSES)
    assert "without the rules rule-1: the frame is longer than --hold-max" in tale.said[0]
    assert HEARTBEAT not in tale.engine.active[0].rule.apis


@pytest.mark.parametrize("cut", [0, 5])
def test_a_sliced_answer_leaves_piece_by_piece_and_later_ones_after_it(cut: int) -> None:
    tale = Tale("api == Heartbeat => slice 10, nth 1")
    story = tale.story.client(beating(1), PASSES).client(beating(2), PASSES)
    answer = beaten(1)
    story.broker(answer, to_client(answer[:10]), cut=cut)
    story.broker(beaten(2), cut=cut)
    pieces = [answer[at : at + 10] for at in range(10, len(answer), 10)]
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        story.later(0.001, to_client(piece + beaten(2) if last else piece))
    assert story.to_client == answer + beaten(2)
    assert story.connection.idle
    assert (1, f"{ACTED} client:\nrule-1: slice 10 response") in tale.comments


def test_a_limited_request_takes_its_time() -> None:
    tale = Tale("api == Produce => limit 1000B/s request")
    request = producing(1)
    story = tale.story.client(request, altered(request[:20]))
    for at in range(20, len(request), 20):
        story.later(0.019).later(0.001, to_broker(request[at : at + 20]))
    assert story.to_broker == request
    assert story.broker(produced(1), PASSES).connection.idle


def test_a_paced_frame_waits_for_its_delay_and_leaves_at_once_without_its_rule() -> None:
    tale = Tale("api == Heartbeat => delay 1s", "slow: api == Heartbeat => limit 100B/s")
    answer = beaten(1)
    story = tale.story.client(beating(1), PASSES).broker(answer)
    story.later(1.0, to_client(answer[:2])).later(0.02, to_client(answer[2:4]))
    tale.engine.remove("slow")
    story.later(0.0, to_client(answer[4:]))
    assert story.to_client == answer


def test_the_end_of_the_broker_lets_all_pieces_leave() -> None:
    tale = Tale("api == Heartbeat => slice 1")
    story = tale.story.client(beating(1), PASSES).broker(beaten(1), to_client(beaten(1)[:1]))
    story.broker_ended(ANYTHING)
    assert story.to_client == beaten(1)


def test_a_large_frame_has_at_most_so_many_pieces() -> None:
    pieces = Pace("rule", 0.0, size=1, gap=0.001).pieces(bytes(25_000))
    assert len(pieces) <= MOST_PIECES
    assert b"".join(pieces) == bytes(25_000)


def test_an_answer_of_the_rule() -> None:
    tale = Tale('api == Heartbeat => answer {"errorCode": "REBALANCE_IN_PROGRESS", "throttleTimeMs": 5}, nth 1')
    story = tale.story.client(beating(7), to_client(beaten(7, error=REBALANCE, throttle=5)))
    story.client(beating(8), PASSES).broker(beaten(8), PASSES)
    request, answer = story.recorded
    assert request == (0, beating(7), f"{KEPT} broker:\nrule-1: answer")
    assert answer == (1, beaten(7, error=REBALANCE, throttle=5), f"{MADE}\nrule-1: answer")
    assert tale.hits == [1]


def test_an_answer_that_does_not_fit_the_version_passes_the_request_with_a_warning() -> None:
    tale = Tale('api == Heartbeat => answer {"errorKode": 27}')
    tale.story.client(beating(1), PASSES)
    (said,) = tale.said
    assert "HeartbeatResponse has no field errorKode in this version" in said
    assert tale.hits == [0]


def test_rules_of_one_name_replace_nothing() -> None:
    tale = Tale("api == Produce => error REQUEST_TIMED_OUT applied")
    before = tale.engine.active
    rules = [
        parse(text, "rule-1")
        for text in ("api == Heartbeat => error 6 not applied", "api == Produce => error REQUEST_TIMED_OUT applied")
    ]
    with pytest.raises(ValueError, match="a rule named rule-1 exists already"):
        tale.engine.replace(rules)
    assert tale.engine.active == before
