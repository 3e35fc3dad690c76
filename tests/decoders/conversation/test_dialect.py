"""The rules of a dialect's file on frames packed by hand, and broken frames in any batches."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.decoders import frames
from kproxy.decoders.conversation.dialect import DialectConversation
from kproxy.decoders.conversation.limits import Limits
from kproxy.decoders.conversation.numbering import Numbering
from kproxy.decoders.conversation.punctuality import Punctuality
from kproxy.decoders.definition_files import read
from kproxy.decoders.dialects.memory import Memory
from kproxy.decoders.exchange import Connection, Exchange, Frame, Health, StreamProblem
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import Node
from tests.decoders.dialects.test_reading import GOOD
from tests.fuzz import dialects as fuzz
from tests.support.coordinator import framed, string
from tests.support.scripts import CLIENT, Cut, Script, bytewise, packets, whole


def eyes(text: str = GOOD) -> Definitions:
    return Definitions("4.4.0", read([("toy.json", text)]))


def ask(number: int, level: int, why: str | None = None, *, version: int = 1) -> bytes:
    body = struct.pack(">b", level) + (b"" if why is None else string(why))
    return framed(struct.pack(">hhi", 1, version, number) + body)


def answer(number: int, failure: int = 0, names: tuple[str, ...] | None = (), more: int | None = None) -> bytes:
    body = b"" if names is None else struct.pack(">h", len(names)) + b"".join(map(string, names))
    body += b"" if more is None else struct.pack(">q", more)
    return framed(struct.pack(">ih", number, failure) + body)


def hello(*, wide: bool, patience: int) -> bytes:
    return framed(struct.pack(">hhi?i", 0, 1, 0, wide, patience))


def played(
    script: Script, text: str = GOOD, cut: Cut = whole, *, opened: bool = True, limits: Limits | None = None
) -> list[dict[str, Any]]:
    """The results as JSON; problems of the stream as code and message."""
    known = eyes(text)
    health = Health()
    conversation = DialectConversation(
        "c:1", "b:7000", script.tape, known, known.dialects["toy"], opened=opened, limits=limits, health=health
    )
    numbering = Numbering()
    items: list[Exchange | StreamProblem] = []
    for batch in cut(script.events):
        done = conversation.feed(batch)
        numbering.assign(conversation.take_started())
        items += (item for _, item in done)
    return [
        exchange_json(item, script.tape, known)
        if isinstance(item, Exchange)
        else {"code": item.code, "message": item.message}
        for item in items
    ]


def bodies(line: dict[str, Any]) -> tuple[Any, Any]:
    return line["request"] and line["request"]["body"], line["response"] and line["response"]["body"]


def messages(line: dict[str, Any]) -> list[str]:
    return [problem["message"] for problem in line["problems"]]


def test_fields_that_are_there_by_a_condition() -> None:
    script = Script()
    script.client(ask(1, 1, "why")).broker(answer(1, names=("a", "b")))
    script.client(ask(2, 0)).broker(answer(2, failure=1, names=None))
    script.client(ask(3, 1, version=0)).broker(answer(3))
    found = played(script.end())
    assert [bodies(line) for line in found] == [
        ({"level": 1, "why": "why"}, {"found": [{"name": "a"}, {"name": "b"}]}),
        ({"level": 0}, {}),
        ({"level": 1}, {"found": []}),
    ]
    assert [line["error_codes"] for line in found] == [[], ["NO_LUCK"], []]
    assert [line["api_version"] for line in found] == [1, 1, 0]
    assert found[0]["request"]["names"] == {"level": "low"}
    assert all(line["status"] == "ok" and not line["problems"] for line in found)


@pytest.mark.parametrize("wide", [True, False])
def test_what_an_earlier_message_told(wide: bool) -> None:
    script = Script().client(hello(wide=wide, patience=100))
    more = 7 if wide else None
    script.broker(ask(1, 0)).client(answer(1, more=more)).broker(ask(2, 0)).client(answer(2, more=None if wide else 7))
    told, right, wrong = played(script.end())
    assert told["reason"] == "one-way request of dialect toy"
    assert (right["asked_by"], right["status"], right["problems"]) == ("broker", "ok", [])
    assert right["response"]["body"] == {"found": [], **({"more": 7} if wide else {})}
    assert wrong["problems"][0]["where"] == "response"
    assert wrong["problems"][0]["code"] == ("truncated" if wide else "trailing_bytes")


def test_requests_from_before_the_roles_turned_are_still_answered() -> None:
    script = Script().client(ask(1, 0), ask(2, 0), hello(wide=False, patience=100))
    script.broker(answer(2)).broker(ask(1, 0)).broker(answer(1)).client(answer(1))
    found = played(script.end())
    assert [(line["api"], line.get("asked_by"), line["correlation_id"], line["status"]) for line in found] == [
        ("Hello", None, 0, "no_reply_expected"),
        ("Ask", None, 2, "ok"),
        ("Ask", None, 1, "ok"),
        ("Ask", "broker", 1, "ok"),
    ]


def test_bytes_that_come_again_as_others() -> None:
    script = Script().client(ask(1, 0)).again(CLIENT, 5, 7).broker(answer(1)).again(CLIENT, 5, 7)
    line, late = played(script.end())
    assert [(one["code"], one["where"], one["offset"]) for one in line["problems"]] == [("overlap", "request", 5)]
    assert late["code"] == "overlap"


def test_both_sides_may_ask() -> None:
    text = GOOD.replace('"asks": "client"', '"asks": "both"').replace('"turnsRoles": true, ', "")
    script = Script().client(ask(1, 0)).broker(ask(1, 0)).broker(answer(1, names=("a",))).client(answer(1))
    found = played(script.end(), text)
    assert [(line.get("asked_by"), line["status"], line["response"]["body"]) for line in found] == [
        (None, "ok", {"found": [{"name": "a"}]}),
        ("broker", "ok", {"found": []}),
    ]


def test_the_broker_may_be_the_one_that_asks() -> None:
    script = Script().broker(ask(5, 0)).client(answer(5))
    (line,) = played(script.end(), GOOD.replace('"asks": "client"', '"asks": "broker"'))
    assert (line["asked_by"], line["status"], line["correlation_id"]) == ("broker", "ok", 5)


def test_what_does_not_pair() -> None:
    script = Script().broker(answer(9)).client(ask(1, 0)).client(ask(1, 0)).broker(answer(1)).client(ask(2, 0))
    orphan, used_again, answered, waits = played(script.end(reason="RST"))
    assert (orphan["status"], orphan["api_key"], orphan["correlation_id"]) == ("orphan_response", None, 9)
    assert orphan["protocol"] == "toy"
    assert orphan["response"]["raw"]
    assert (used_again["status"], used_again["reason"]) == ("no_response", "its correlation id was used again")
    assert answered["status"] == "ok"
    assert [problem["code"] for problem in answered["problems"]] == ["repeated_correlation_id"]
    assert (waits["status"], waits["reason"]) == ("no_response", "the connection ended (RST)")


def test_limits() -> None:
    script = Script().client(ask(1, 0), ask(2, 0), ask(3, 0)).wait(2000).client(ask(4, 0))
    found = played(script.end(), limits=Limits(outstanding=2, outstanding_time=1_000_000_000))
    assert [line["reason"] for line in found] == [
        "given up: too many requests waited on this connection",
        "given up: no response within 1 s",
        "given up: no response within 1 s",
        "the connection ended (FIN)",
    ]


def test_unknown_types_and_versions() -> None:
    script = Script().client(framed(struct.pack(">hhi", 99, 0, 1))).client(ask(2, 1, "x", version=7)).broker(answer(2))
    newer, unknown = played(script.end())
    assert (unknown["api_key"], unknown["api"], unknown["request"]["body"]) == (99, None, None)
    assert messages(unknown) == ["toy has no request type 99"]
    assert messages(newer)[0] == "toy has no version 7; read as version 1"
    assert newer["request"]["guessed_version"] == 1
    assert newer["request"]["body"] == {"level": 1, "why": "x"}


def test_a_long_array_counted_in_16_bits_is_no_reason_to_reserve() -> None:
    script = Script().client(ask(1, 0)).broker(framed(struct.pack(">ihh", 1, 0, 32767)))
    (line,) = played(script.end())
    assert line["status"] == "undecodable"
    assert messages(line) == ["32767 elements of at least 2 bytes, 0 bytes are left"]


def test_late_by_numbers_of_the_file() -> None:
    script = Script().client(hello(wide=False, patience=100)).wait(700).broker(ask(1, 0)).wait(200).client(answer(1))
    found = played(script.end())
    assert found[1] == {"code": "late", "message": "no Ask within 500 ms of HelloRequest"}
    assert found[2]["status"] == "ok"
    assert messages(found[2]) == ["no answer within 100 ms"]


@pytest.mark.parametrize(("wait", "late"), [(499, False), (500, True)])
def test_what_comes_when_its_time_is_over_is_not_late(wait: int, late: bool) -> None:
    """Packets are a millisecond apart, so the answer comes after 500 or 501 ms of the 500 ms that it may take."""
    script = Script().client(hello(wide=False, patience=100)).wait(wait).broker(ask(1, 0)).client(answer(1))
    assert [one["code"] for one in played(script.end()) if "code" in one] == ["late"] * late


@pytest.mark.parametrize(("wait", "late"), [(99, False), (100, True)])
def test_an_answer_when_its_time_is_over_is_not_late(wait: int, late: bool) -> None:
    script = Script().client(hello(wide=False, patience=100)).broker(ask(1, 0)).wait(wait).client(answer(1))
    found = played(script.end())
    assert messages(found[-1]) == ["no answer within 100 ms"] * late
    exchange = Exchange(
        1, Connection(1, "c:1", "b:7000", 0), 1, 1, 1, None, request=Frame(Side.BROKER, 0, 1, 0, 0, 0, [])
    )
    dialect = eyes().dialects["toy"]
    memory = Memory(dialect)
    memory.learn("HelloRequest", {"patienceMs": 100})
    punctuality = Punctuality(dialect, exchange.connection, memory)
    assert punctuality.overdue(exchange, (wait + 1) * 1_000_000) is late


def test_a_condition_on_the_body_itself_is_kept() -> None:
    """Level 0 has no reason field, though the bytes would fit one."""
    (line,) = played(Script().client(ask(1, 0, "why")).broker(answer(1)).end())
    assert line["request"]["body"] == {"level": 0}
    assert messages(line) == ["5 bytes after the body"]


def test_what_a_message_that_cannot_be_read_told_is_not_known() -> None:
    text = GOOD.replace('"turnsRoles": true, ', "")
    script = Script().client(hello(wide=True, patience=100)).client(framed(hello(wide=True, patience=1)[4:-4]))
    for number, more in enumerate((None, 7)):
        script.client(ask(number, 0)).broker(answer(number, more=more))
    found = played(script.end(), text)
    assert [problem["code"] for problem in found[1]["problems"]] == ["truncated"]
    assert [line["response"]["body"] for line in found[2:]] == [{"found": []}, {"found": [], "more": 7}]
    assert not any(line["problems"] for line in found[2:])


def test_a_capture_that_begins_within_a_frame_and_after_the_roles_turned() -> None:
    script = Script().broker(ask(1, 0)[5:]).client(answer(1)[3:])
    script.broker(ask(2, 0)).client(answer(2, names=("a", "b"))).broker(framed(struct.pack(">hhi", 99, 0, 3)))
    found = played(script.end(), opened=False)
    exchanges = [line for line in found if "api_key" in line]
    assert [(line["api_key"], line.get("asked_by"), line["status"]) for line in exchanges] == [
        (1, "broker", "ok"),
        (99, "broker", "no_response"),
    ]


def labels(node: Node) -> dict[str, str]:
    return {one.path or one.name: one.label for one in node.walk() if one.label is not None}


def test_frames_as_trees() -> None:
    known = eyes(GOOD.replace('"type": 1, "name": "Ask"', '"type": 1, "supposed": true, "name": "Ask"'))
    root = frames.frame_tree(ask(1, 1, "why"), Side.CLIENT, 1, 1, known, protocol="toy")
    assert [child.name for child in root.children] == ["size", "header", "body"]
    assert labels(root) == {"body": "supposed", "level": "low"}
    wide = answer(1, names=(), more=5)
    told = frames.frame_tree(wide, Side.BROKER, 1, 1, known, protocol="toy", truths="1").children[-1]
    assert [(child.name, child.start, child.end) for child in told.children] == [("found", 10, 12), ("more", 12, 20)]
    not_told = frames.frame_tree(wide, Side.BROKER, 1, 1, known, protocol="toy", truths="0")
    assert [child.name for child in not_told.children] == ["size", "header", "body", "trailing"]
    gone = frames.frame_tree(wide, Side.BROKER, 1, 1, known, protocol="other")
    assert [child.name for child in gone.children] == ["size", "header", "unread"]
    for end in range(len(wide)):
        frames.frame_tree(wide[:end], Side.BROKER, 1, 1, known, protocol="toy", truths="1")


def test_after_a_hole_frames_are_found_again() -> None:
    script = Script().client(ask(1, 0)).broker(answer(1)).client(ask(2, 0)).lost(Side.BROKER, answer(2)[:5])
    script.broker(answer(2)[5:]).client(ask(3, 0)).broker(answer(3, names=("abc",)))
    found = played(script.end())
    assert [line["code"] for line in found if "code" in line] == ["gap", "resync"]
    assert {line["correlation_id"]: line["status"] for line in found if "status" in line} == {
        1: "ok", 2: "no_response", 3: "ok",
    }  # fmt: skip


@settings(deadline=None)
@given(st.data())
def test_flipped_or_cut_frames_are_told_and_never_raise(data: st.DataObject) -> None:
    """Every exchange is completed once, and the result does not depend on batches."""
    asked, answered = ask(1, 1, "because"), answer(1, names=("a", "b"), more=5)
    stream = bytearray(hello(wide=True, patience=50) + answered) if data.draw(st.booleans()) else bytearray(asked)
    for _ in range(data.draw(st.integers(0, 3))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    del stream[data.draw(st.integers(1, len(stream))) :]
    script = Script().packets(Side.CLIENT, bytes(stream), data.draw(st.sampled_from([1, 5, 100])))
    script.broker(asked).client(answered).broker(answered)
    script.end(reason=data.draw(st.sampled_from(["FIN", "RST"])))
    opened = data.draw(st.booleans())
    found = played(script, opened=opened)
    for cut in (packets, bytewise):
        assert played(script, cut=cut, opened=opened) == found
    numbers = [line["exchange"] for line in found if "exchange" in line]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_conversation_of_the_drafts(dice: Any) -> None:
    fuzz.once(dice)
