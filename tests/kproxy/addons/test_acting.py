"""What actors may give, and what becomes of one that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest

from kproxy.addons import Act, Actor, Frame
from kproxy.addons.acting import Actors, table
from kproxy.core.rewrite import Change
from kproxy.core.verdict import Parties, Turn, Verdict
from kproxy.decoders.stream import Side
from kproxy.decoders.writer import write
from tests.kproxy.core.frames import DEFINITIONS, decoded, request, response
from tests.support.playbook import ANYTHING, PASSES, RESET, Playbook, altered

HEARTBEAT, METADATA, AUTHENTICATE = 12, 3, 36
PARTIES = "c:1", "b:2"


def offer(
    actors: Actors, side: Side, api_key: int, version: int, frame: bytes, client: str, broker: str
) -> tuple[bytes | None, tuple[Change, ...]]:
    """(the frame that is sent, the changed fields)"""
    verdict = Verdict(frame)
    actors.offer(side, Turn(api_key, version, 7, Parties(client, broker)), verdict)
    return verdict.frame, tuple(verdict.changes)


class NoThrottle(Actor):
    apis = ("Heartbeat",)

    def response(self, frame: Frame) -> bytes | None:
        assert (frame.client, frame.broker) == PARTIES
        return frame.written(body={**frame.body, "throttleTimeMs": 0})


class Rename(Actor):
    name = "rename"
    apis = ("Metadata", HEARTBEAT)

    def request(self, frame: Frame) -> bytes | None:
        return frame.written(header={**frame.header, "clientId": "renamed"})


class Gives(Actor):
    apis = (HEARTBEAT,)
    what: ClassVar[object] = None

    def response(self, frame: Frame) -> bytes | None:
        del frame
        return self.what  # type: ignore[return-value]  # what it should not give, too


class Said:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.details: list[str] = []

    def __call__(self, topic: str, line: str, details: str) -> None:
        del topic
        self.lines.append(line)
        self.details.append(details)


def answer(throttle: int = 500) -> bytes:
    return response(HEARTBEAT, 4, 7, {"throttleTimeMs": throttle, "errorCode": 0})


def test_values_become_bytes_and_changes_have_names() -> None:
    said = Said()
    actors = table([NoThrottle], DEFINITIONS, said)
    new, changes = offer(actors, Side.BROKER, HEARTBEAT, 4, answer(), *PARTIES)
    assert new == answer(0)
    assert [str(change) for change in changes] == ["NoThrottle: throttleTimeMs: 500 -> 0"]
    assert offer(actors, Side.BROKER, HEARTBEAT, 4, answer(0), *PARTIES) == (answer(0), ())
    assert said.lines == []


def test_it_is_asked_for_its_apis_and_its_directions_only() -> None:
    actors = table([NoThrottle, Rename], DEFINITIONS, Said())
    wanted = {(side, key) for side in (Side.CLIENT, Side.BROKER) for key in range(100) if actors.act_on(side, key)}
    assert wanted == {(Side.BROKER, HEARTBEAT), (Side.CLIENT, HEARTBEAT), (Side.CLIENT, METADATA)}


@pytest.mark.parametrize("version", [0, 4, 12])
def test_a_header_may_change(version: int) -> None:
    message = DEFINITIONS.request(METADATA, version)
    assert message is not None
    frame = request(METADATA, version, 7, write(message, version, {}))
    new, changes = offer(table([Rename], DEFINITIONS, Said()), Side.CLIENT, METADATA, version, frame, *PARTIES)
    assert new == frame.replace(b"\0\4test", b"\0\7renamed").replace(frame[:4], (len(frame) - 1).to_bytes(4, "big"), 1)
    assert [str(change) for change in changes] == ['rename: clientId: "test" -> "renamed"']


def test_several_act_one_after_the_other() -> None:
    class Add(Actor):
        apis = (HEARTBEAT,)

        def response(self, frame: Frame) -> bytes | None:
            return frame.written(body={**frame.body, "throttleTimeMs": frame.body["throttleTimeMs"] + 1})

    new, changes = offer(table([Add, Add], DEFINITIONS, Said()), Side.BROKER, HEARTBEAT, 4, answer(), *PARTIES)
    assert new == answer(502)
    assert [change.new for change in changes] == [501, 502]


class Spoils(Actor):
    """Alters what it was given, and gives nothing."""

    apis = (HEARTBEAT, "Metadata")

    def request(self, frame: Frame) -> bytes | None:
        frame.header["clientId"] = "spoilt"
        return None

    def response(self, frame: Frame) -> bytes | None:
        frame.body["throttleTimeMs"] = 7777
        return None


class InPlace(Actor):
    apis = (HEARTBEAT,)

    def response(self, frame: Frame) -> bytes | None:
        frame.body["throttleTimeMs"] += 1
        return frame.written(body=frame.body)


@pytest.mark.parametrize("actors", [[Spoils, InPlace], [Spoils, InPlace, Spoils], [Spoils, Spoils, InPlace]])
def test_what_an_actor_alters_reaches_no_other_actor(actors: list[type[Actor]]) -> None:
    new, changes = offer(table(actors, DEFINITIONS, Said()), Side.BROKER, HEARTBEAT, 4, answer(), *PARTIES)
    assert new == answer(501)
    assert [str(change) for change in changes] == ["InPlace: throttleTimeMs: 500 -> 501"]


def test_what_was_altered_before_a_failure_does_not_leave() -> None:
    class Fails(Spoils):
        def response(self, frame: Frame) -> bytes | None:
            super().response(frame)
            raise ValueError

    actors = table([Fails, InPlace, InPlace], DEFINITIONS, Said())
    new, changes = offer(actors, Side.BROKER, HEARTBEAT, 4, answer(), *PARTIES)
    assert new == answer(502)
    assert [(change.old, change.new) for change in changes] == [(500, 501), (501, 502)]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("text", "TypeError"),
        (b"", "length field"),
        (answer()[:-1], "length field"),
        (response(HEARTBEAT, 4, 8, {}), "another API key, version or correlation id"),
        (answer()[:3] + bytes([answer()[3] + 1]) + answer()[4:] + b"x", "cannot be decoded"),
    ],
)
def test_what_is_no_such_frame_is_not_sent_and_its_actor_is_shut_out(what: object, words: str) -> None:
    said = Said()
    wrong = type("Wrong", (Gives,), {"what": what})
    actors = table([wrong, NoThrottle], DEFINITIONS, said)
    new, _ = offer(actors, Side.BROKER, HEARTBEAT, 4, answer(), *PARTIES)
    assert new == answer(0)
    assert "actor Wrong has failed on Heartbeat v4 and is disabled" in said.lines[-1]
    assert words in said.lines[-1]
    assert "Traceback" in said.details[-1]
    count = len(said.lines)
    offer(actors, Side.BROKER, HEARTBEAT, 4, answer(), *PARTIES)
    assert len(said.lines) == count


def test_one_that_fails_leaves_its_apis_to_pass() -> None:
    class Fails(Actor):
        apis = (HEARTBEAT, METADATA)

        def response(self, frame: Frame) -> bytes | None:
            del frame
            raise RuntimeError("why")

    said = Said()
    actors = table([Fails], DEFINITIONS, said)
    assert offer(actors, Side.BROKER, HEARTBEAT, 4, answer(), *PARTIES) == (answer(), ())
    assert not actors.act_on(Side.BROKER, HEARTBEAT)
    assert not actors.act_on(Side.BROKER, METADATA)
    words = "is disabled (kproxy addons reload Fails enables it): RuntimeError: why"
    assert said.lines == [f"actor Fails has failed on Heartbeat v4 and {words}"]


def test_one_that_cannot_be_made_is_left_out() -> None:
    class Needs(Actor):
        def __init__(self, what: str) -> None: ...

    class Unknown(Actor):
        apis = ("Nothing",)

        def request(self, frame: Frame) -> bytes | None:
            del frame
            return None

    said = Said()
    actors = table([Needs, Unknown, NoThrottle], DEFINITIONS, said)
    assert actors.act_on(Side.BROKER, HEARTBEAT)
    assert [line.partition(":")[0] for line in said.lines] == [
        "actor Needs is left out",
        "actor Unknown is left out",
    ]
    assert "there is no API 'Nothing'" in said.lines[1]


@pytest.mark.parametrize(("version", "data"), [(4, answer() + b"x"), (4, answer()[:-1]), (99, answer())])
def test_what_cannot_be_read_passes_and_is_named(version: int, data: bytes) -> None:
    said = Said()
    data = (len(data) - 4).to_bytes(4, "big") + data[4:]
    actors = table([NoThrottle], DEFINITIONS, said)
    assert offer(actors, Side.BROKER, HEARTBEAT, version, data, *PARTIES) == (data, ())
    (line,) = said.lines
    assert line.startswith(
        f"a response of Heartbeat v{version} was forwarded without its addons (NoThrottle): the frame cannot be decoded"
    )


def test_secrets_do_not_reach_the_comment() -> None:
    class Swap(Actor):
        apis = (AUTHENTICATE,)

        def request(self, frame: Frame) -> bytes | None:
            return frame.written(body={"authBytes": b"\0user\0other"})

    message = DEFINITIONS.request(AUTHENTICATE, 2)
    assert message is not None
    frame = request(AUTHENTICATE, 2, 7, write(message, 2, {"authBytes": b"\0user\0secret"}))
    actors = Actors([Swap()], DEFINITIONS, Said())
    new, changes = offer(actors, Side.CLIENT, AUTHENTICATE, 2, frame, *PARTIES)
    assert b"other" in (new or b"")
    text = "\n".join(map(str, changes))
    assert text
    assert "other" not in text
    assert "secret" not in text


def test_values_are_what_was_decoded() -> None:
    seen: list[Frame] = []

    class Look(Actor):
        apis = (HEARTBEAT,)

        def response(self, frame: Frame) -> bytes | None:
            seen.append(frame)
            return None

    offer(table([Look], DEFINITIONS, Said()), Side.BROKER, HEARTBEAT, 4, answer(), *PARTIES)
    (frame,) = seen
    assert (frame.api, frame.api_key, frame.api_version, frame.correlation_id) == ("Heartbeat", HEARTBEAT, 4, 7)
    assert frame.body == decoded(answer(), HEARTBEAT, 4)
    assert frame.written() == frame.data == answer()


def test_one_that_has_failed_acts_again_in_its_place() -> None:
    fails = True

    class First(Gives):
        def response(self, frame: Frame) -> bytes | None:
            if fails:
                raise RuntimeError
            return frame.written(body={**frame.body, "throttleTimeMs": 1})

    class Second(InPlace):
        pass

    actors = table([First, Second], DEFINITIONS, Said())
    second = actors._working[1]
    assert offer(actors, Side.BROKER, HEARTBEAT, 4, answer(), *PARTIES)[0] == answer(501)
    fails = False
    assert offer(actors, Side.BROKER, HEARTBEAT, 4, answer(), *PARTIES)[0] == answer(501), "it is off"
    for name in ("Third", "first"):
        with pytest.raises(LookupError, match=f"no actor '{name}'"):
            actors.reload([First, Second], name)
    assert actors.reload([First, Second], "First") == ["First"]
    assert actors._working[1] is second
    assert offer(actors, Side.BROKER, HEARTBEAT, 4, answer(), *PARTIES)[0] == answer(2), "first comes first"
    assert actors.reload([First, Second], None) == ["First", "Second"]


def test_where_one_cannot_be_made_all_stays() -> None:
    class Unmade(Gives):
        def __init__(self) -> None:
            raise OSError("no file")

    actors = table([InPlace], DEFINITIONS, Said())
    with pytest.raises(LookupError, match="cannot create actor Unmade: OSError: no file"):
        actors.reload([InPlace, Unmade], None)
    assert offer(actors, Side.BROKER, HEARTBEAT, 4, answer(), *PARTIES)[0] == answer(501)


class Does(Actor):
    """Does with each Heartbeat what a test wants."""

    apis = (HEARTBEAT,)
    act: ClassVar[Callable[[Frame], Act]]

    def request(self, frame: Frame) -> Act:
        return type(self).act(frame)


class DoesAnswers(Actor):
    apis = (HEARTBEAT,)

    def response(self, frame: Frame) -> Act:
        return frame.answer(error="REBALANCE_IN_PROGRESS")


def heartbeat(correlation_id: int = 7) -> bytes:
    message = DEFINITIONS.request(HEARTBEAT, 4)
    assert message is not None
    return request(HEARTBEAT, 4, correlation_id, write(message, 4, {"groupId": "g", "memberId": "m"}))


def does(act: Callable[[Frame], Act]) -> Playbook:
    Does.act = act
    return Playbook(actors=table([Does], DEFINITIONS, Said(), lambda: 0.0))


def test_an_actor_drops_answers_and_ends() -> None:
    does(Frame.drop).client(heartbeat())
    story = does(lambda frame: frame.answer(error="REBALANCE_IN_PROGRESS")).client(heartbeat(), ANYTHING)
    assert story.to_broker == b""
    assert decoded(story.to_client, HEARTBEAT, 4)["errorCode"] == 27
    assert [comment.splitlines()[-1] for *_, comment in story.recorded] == ["Does: answer REBALANCE_IN_PROGRESS"] * 2
    story = does(lambda frame: frame.answer(body={"throttleTimeMs": 9})).client(heartbeat(), ANYTHING)
    assert decoded(story.to_client, HEARTBEAT, 4) == {"throttleTimeMs": 9, "errorCode": 0}
    does(lambda frame: frame.disconnect(reset=True)).client(heartbeat(), RESET)


def test_an_actor_delays() -> None:
    story = does(lambda frame: frame.delay(2)).client(heartbeat())
    story.later(1)
    story.later(1, altered(heartbeat()))


def test_an_actor_puts_an_error_into_an_answer() -> None:
    story = Playbook(actors=table([DoesAnswers], DEFINITIONS, Said())).client(heartbeat(), PASSES)
    story.broker(answer(), ANYTHING)
    assert decoded(story.to_client, HEARTBEAT, 4)["errorCode"] == 27
    assert "DoesAnswers: errorCode: 0 -> 27" in story.recorded[0][2]


@pytest.mark.parametrize("error", [None, 0, "NO_SUCH_ERROR"])
def test_an_actor_that_answers_nothing_fails(error: str | int | None) -> None:
    story = does(lambda frame: frame.answer(error=error)).client(heartbeat(), PASSES)
    assert story.to_broker == heartbeat()
