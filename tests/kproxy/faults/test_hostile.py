"""Whatever arrives in whatever pieces: rules raise nothing, hang nothing, and give back all memory."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from kproxy.core.passing import MAX_NOTED
from kproxy.core.verdict import Parties
from kproxy.faults import sessions
from kproxy.faults.sessions import Sessions
from tests.kproxy.faults.support import FETCH, Tale, asking, beaten, beating, produced, producing
from tests.kproxy.faults.test_parsing import RULES
from tests.support.playbook import ANYTHING, PASSES, end

STEPS = st.one_of(
    st.tuples(st.just("client"), st.binary(max_size=40)),
    st.tuples(st.just("broker"), st.binary(max_size=40)),
    st.tuples(st.just("client"), st.builds(beating, st.integers(0, 3))),
    st.tuples(
        st.just("client"), st.builds(producing, st.integers(0, 3), st.integers(0, 2), acks=st.sampled_from([0, -1]))
    ),
    st.tuples(st.just("broker"), st.builds(beaten, st.integers(0, 3), st.sampled_from([0, 27]))),
    st.tuples(st.just("broker"), st.builds(produced, st.integers(0, 3), st.integers(0, 2))),
    st.tuples(st.just("later"), st.sampled_from([0.5, 40])),
)
MORE = [
    "api == Heartbeat => error 27 not applied, every 2",
    "api == Produce => error 6 at partition == 1 not applied",
    "api == Heartbeat and error == 27 => swap",
    "all topic == t => hold request",
    "version >= 0 => duplicate response",
    "version >= 0 => drop request, p 0.3",
    "version >= 0 => delay 1s",
    "version >= 0 => intercept 2s",
    "version >= 0 => slice 5",
]


@example(["api == Produce => slice 1 request, first 2", "version >= 0 => intercept 2s"],
         [("client", producing(0, 0, acks=0))], 0)  # fmt: skip
@example(["all topic == t => hold request", "api == Produce => drop request, once per partition"],
         [("client", producing(0, 0, acks=0))], 0)  # fmt: skip
@given(
    st.lists(st.sampled_from([*RULES, *MORE]), min_size=1, max_size=4), st.lists(STEPS, max_size=12), st.integers(0, 9)
)
def test_rules_bear_any_bytes(rules: list[str], steps: list[tuple[str, bytes | float]], cut: int) -> None:
    tale = Tale(*rules, memory=4000)
    story = tale.story
    for what, value in steps:
        if isinstance(value, bytes):
            feed = story.client if what == "client" else story.broker
            feed(value, ANYTHING, cut=cut)
        else:
            story.later(value, ANYTHING)
    story.client_ended(ANYTHING).broker_ended(ANYTHING)
    story.connection.dropped()
    assert story.shared.budget.held == 0
    waits = [wait for active in tale.engine.active for wait in active.waits]
    assert all(wait.over and wait.wake is None for wait in waits), "the engine keeps a connection that has ended"
    assert not tale.engine.intercepted
    assert [said for said in tale.said if "could not decide" in said] == []


def test_a_response_that_leaves_behind_the_next_one_is_not_held_too() -> None:
    tale = Tale("api == Heartbeat => hold", "api == Heartbeat => swap")
    tale.story.client(beating(0), ANYTHING).broker(beaten(0, 0), ANYTHING)
    hold, _ = tale.engine.active
    assert (hold.counter.hits, hold.to_json()["held"]) == (1, 0)


def test_own_answers_that_wait_for_ever_are_bounded() -> None:
    tale = Tale("api == Heartbeat => error 27 not applied")
    tale.story.client(producing(1), PASSES)
    for number in range(MAX_NOTED):
        tale.story.client(beating(number))
    tale.story.client(beating(0), end("unanswered"))


def test_requests_without_an_answer_are_bounded() -> None:
    tale = Tale("api == Heartbeat => delay 1s")
    for _ in range(MAX_NOTED + 100):
        tale.story.client(producing(1), PASSES)
    connection = tale.story.connection
    assert connection._open == MAX_NOTED  # type: ignore[attr-defined]
    assert len(connection._order) == MAX_NOTED  # type: ignore[attr-defined]
    tale.story.broker(produced(1), PASSES)


def test_sessions_are_bounded() -> None:
    known = Sessions()
    partitions = [{"partition": number} for number in range(1000)]
    body = {"sessionEpoch": 0, "topics": [{"topic": "t", "partitions": partitions}]}
    connections = [Parties("client:1", "broker:1", None, number) for number in range(300)]
    for connection in connections:
        known.whole(connection, body)
    assert known._size <= sessions.MOST_PARTITIONS
    empty = {"sessionEpoch": 1, "topics": [], "forgottenTopicsData": [{"topic": "t", "partitions": [0]}]}
    (topic,) = known.whole(connections[299], empty)["topics"]
    assert len(topic["partitions"]) == 999
    assert known.whole(connections[0], {"sessionEpoch": 1, "topics": []})["topics"] == []
    for connection in connections:
        known.whole(connection, {"sessionEpoch": -1, "topics": []})
    assert known._size == 0
    assert asking(FETCH, 11, 1, body)


def test_sessions_end_with_their_connections() -> None:
    known = Sessions()
    body = {"sessionEpoch": 0, "topics": [{"topic": "t", "partitions": [{"partition": 1}]}]}
    for number in range(10):
        known.whole(Parties("client:1", "broker:1", None, number), body)
    assert len(known._known) == 0
