"""Facts of Fetch requests: with fetch sessions, bytes in, facts out."""

from __future__ import annotations

from typing import Any

from kproxy.captures.findings import facts
from kproxy.captures.findings.fetch_facts import PLACES, Position, Sessions
from kproxy.captures.findings.making import FactMaker
from tests.decoders.batches.support import batch, record
from tests.support.scripts import Script, eyes, play, request, response

WANTED = (facts.Fetched, facts.FetchSession)
TOPIC = b"\7" * 16


class Fetching(Script):
    """Fetch requests of one connection, answered at once."""

    number = 0

    def fetch(
        self, asked: dict[int, int], got: dict[int, int], *, version: int = 12, granted: int | None = None,
        forgotten: int | None = None, empty: bool = False, answer: dict[str, Any] | None = None, **more: Any,
    ) -> Fetching:  # fmt: skip
        """Ask for offsets by partition; `got` are partitions with records, and their high watermark."""
        self.number += 1
        name: dict[str, Any] = {"topic": "t"} if version < 13 else {"topicId": TOPIC}
        partitions = [
            {"partition": number, "fetchOffset": offset, "partitionMaxBytes": 1000 + number}
            for number, offset in asked.items()
        ]
        held = b"" if empty else batch(record(0, None, b"v"), 1)
        answers = [
            {"partitionIndex": number, "highWatermark": end, "lastStableOffset": end, "records": held}
            for number, end in got.items()
        ]
        body = {"maxBytes": 9999, "minBytes": 1, "topics": [name | {"partitions": partitions}] if asked else []} | more
        reply: dict[str, Any] = {"responses": [name | {"partitions": answers}] if got else []} | (answer or {})
        if version >= 7:
            reply["sessionId"] = more.get("sessionId", 0) if granted is None else granted
            body["forgottenTopicsData"] = [] if forgotten is None else [name | {"partitions": [forgotten]}]
        self.client(request(1, version, self.number, "app", raw=None, **body))
        self.broker(response(1, version, self.number, raw=None, **reply))
        return self

    def made(self) -> list[Any]:
        played = play(self.end())
        return [one for one in FactMaker(played.tape, eyes(), WANTED).make(played.exchanges) if isinstance(one, WANTED)]

    def parts(self) -> list[list[tuple[int, int | None, int | None]]]:
        """Partition, offset and limit of the parts of each Fetched."""
        found = (one for one in self.made() if isinstance(one, facts.Fetched))
        return [[(part.partition, part.offset, part.most) for part in one.parts] for one in found]


def test_an_incremental_request_leaves_out_what_stays() -> None:
    script = Fetching().fetch({0: 10, 1: 20, 2: 30}, {0: 11}, sessionId=0, sessionEpoch=0, granted=7)
    script.fetch({0: 11}, {1: 25}, sessionId=7, sessionEpoch=1)
    script.fetch({1: 21}, {0: 12, 2: 31}, sessionId=7, sessionEpoch=2)
    assert script.parts() == [[(0, 10, 1000)], [(1, 20, 1001)], [(0, 11, 1000), (2, 30, 1002)]]


def test_topics_by_id_have_sessions_too() -> None:
    script = Fetching().fetch({0: 10}, {}, sessionId=0, sessionEpoch=0, granted=7, version=17)
    assert script.fetch({}, {0: 25}, sessionId=7, sessionEpoch=1, version=17).parts() == [[(0, 10, 1000)]]


def test_a_partition_that_is_forgotten_has_no_position() -> None:
    script = Fetching().fetch({0: 10, 1: 20}, {}, sessionId=0, sessionEpoch=0, granted=7)
    script.fetch({}, {}, sessionId=7, sessionEpoch=1, forgotten=1)
    assert script.fetch({}, {0: 12, 1: 22}, sessionId=7, sessionEpoch=2).parts() == [[(0, 10, 1000), (1, None, None)]]


def test_a_session_that_ended_has_no_positions() -> None:
    ends: list[dict[str, Any]] = [{"sessionEpoch": -1}, {"sessionEpoch": 1, "answer": {"errorCode": 70}}]
    for ending in ends:
        script = Fetching().fetch({0: 10}, {}, sessionId=0, sessionEpoch=0, granted=7)
        script.fetch({}, {}, sessionId=7, **ending)
        assert script.fetch({}, {0: 12}, sessionId=7, sessionEpoch=2).parts() == [[(0, None, None)]]


def test_a_session_of_which_the_capture_lacks_the_beginning() -> None:
    script = Fetching().fetch({1: 5}, {0: 12, 1: 6}, sessionId=7, sessionEpoch=40)
    assert script.parts() == [[(0, None, None), (1, 5, 1001)]]


def test_sizes_pauses_and_limits() -> None:
    script = Fetching().fetch({0: 10}, {0: 11})
    script.wait(500)
    script.fetch({0: 10}, {})
    script.wait(300)
    first, second = script.fetch({0: 11}, {0: 12}).made()
    assert (first.pause, first.max_bytes, first.min_bytes) == (None, 9999, 1)
    assert first.size == first.parts[0].size > 60
    assert second.pause == 301_000_000, "the answer without records counts as well"


def test_long_polls_are_no_facts() -> None:
    assert not Fetching().fetch({0: 10}, {0: 10}, empty=True).made()


def test_followers_are_no_consumers() -> None:
    assert not Fetching().fetch({0: 10}, {0: 11}, replicaId=3).made()
    assert not Fetching().fetch({0: 10}, {0: 11}, version=17, replicaState={"replicaId": 3}).made()


def test_requests_for_a_session() -> None:
    script = Fetching().fetch({0: 10, 1: 2}, {}, sessionId=0, sessionEpoch=0, granted=0)
    script.fetch({0: 10}, {}, sessionId=0, sessionEpoch=0, granted=9)
    script.fetch({}, {}, sessionId=9, sessionEpoch=1).fetch(
        {}, {}, sessionId=9, sessionEpoch=2, answer={"errorCode": 71}
    )
    assert [one[1:] for one in script.made()] == [(0, 0, 2), (9, 0, 1), (9, 71, 0)]


def test_requests_that_cannot_get_a_session() -> None:
    """Without sessions, throttled, of an old version, or without partitions."""
    script = Fetching().fetch({0: 10}, {}, sessionId=0, sessionEpoch=-1)
    script.fetch({0: 10}, {}, sessionId=0, sessionEpoch=0, answer={"throttleTimeMs": 100})
    script.fetch({0: 10}, {}, version=6)
    assert not script.fetch({}, {}, sessionId=0, sessionEpoch=0).made()


def test_sessions_are_bounded() -> None:
    sessions, many = Sessions(), {("t", number): Position(number, None) for number in range(PLACES // 4)}
    for number in range(1, 9):
        sessions.begin("b", number, dict(many))
    assert sessions.change("b", 1, {}, []) == {}, "the oldest gave way"
    assert len(sessions.change("b", 8, {}, [])) == len(many)
