"""The compiled modules of conversations give the same results as their Python source."""

from __future__ import annotations

import gc
import io
import pickle
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from random import Random
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.decoders.conversation import loop
from kproxy.decoders.conversation.acks import way
from kproxy.decoders.conversation.compiled import COMPILED
from kproxy.decoders.conversation.conversation import Conversation
from kproxy.decoders.conversation.limits import Limits
from kproxy.decoders.conversation.recognition import Known, known
from kproxy.decoders.exchange import Exchange, Status
from kproxy.decoders.schema import Definitions
from tests.fuzz import conversation as fuzz
from tests.support.scripts import BROKER, CLIENT, Script, Tape, bytewise, eyes, facts, packets, request, response, whole
from tests.support.thinned import thinned

PLACE = "kproxy.decoders.conversation"
NAMES = ("loop", "pairing")
VARIANTS = ["plain", *(["compiled"] if COMPILED else [])]
variants = pytest.mark.parametrize("variant", VARIANTS)


def module(variant: str, name: str) -> ModuleType:
    return import_module(f"{PLACE}._{name}" if variant == "compiled" else f"{PLACE}.{name}")


@contextmanager
def using(variant: str) -> Iterator[None]:
    """Within the block, conversations use one of the two variants."""
    frames, pairs = (module(variant, name) for name in NAMES)
    with (
        patch(f"{PLACE}.requests.whole_requests", frames.whole_requests),
        patch(f"{PLACE}.requests.wants_no_reply", frames.wants_no_reply),
        patch(f"{PLACE}.responses.whole_responses", frames.whole_responses),
        patch(f"{PLACE}.conversation.Pairing", pairs.Pairing),
    ):
        yield


@pytest.mark.skipif(not COMPILED, reason="there was no C compiler when this was installed")
@pytest.mark.parametrize("number", thinned(range(150), 50))
def test_both_make_the_same_of_any_bytes(number: int) -> None:
    dice = Random(f"plain and compiled {number}")
    script = fuzz.make(dice)
    if not script.events:
        return
    opened = dice.random() < 0.7
    limits = dice.choice([Limits(), Limits(frame=500), Limits(outstanding=2, early=1)])
    for cut in (whole, packets, bytewise):
        found = []
        for variant in VARIANTS:
            with using(variant):
                found.append(fuzz.play(script, cut, opened=opened, limits=limits))
        assert found[0] == found[1]


def talk(count: int = 40) -> Script:
    """Pipelined requests of all kinds of pairing, in packets that end within frames."""
    script = Script()
    asked, answered = b"", b""
    for number in range(count):
        acks = (1, 0, -1)[number % 3]
        if number % 2:
            asked += request(0, 9, number, acks=acks, transactionalId="t" * number)
            answered += response(0, 9, number) if acks else b""
        else:
            asked += request(3, 12, number)
            answered += response(3, 12, number)
        if number % 5 == 4:
            script.packets(CLIENT, asked, 37)
            script.packets(BROKER, answered, 41)
            asked = answered = b""
    script.end()
    return script


class Pickler(pickle.Pickler):
    """Leaves out objects that every reading creates anew, as streams do."""

    def persistent_id(self, obj: Any) -> int | None:
        return ANEW.index(obj) if isinstance(obj, Definitions | Known) else None


class Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: int) -> Any:
        return ANEW[pid]


ANEW: list[Any] = [eyes(), known(eyes())]


def copied(conversation: Conversation) -> Conversation:
    """The conversation after pickling and unpickling."""
    data = io.BytesIO()
    Pickler(data, pickle.HIGHEST_PROTOCOL).dump(conversation)
    data.seek(0)
    made: Conversation = Unpickler(data).load()
    return made


@variants
def test_a_conversation_goes_on_as_it_was_pickled(variant: str) -> None:
    script = talk()
    with using(variant):
        plain, going = (Conversation("c:1", "b:2", script.tape, eyes()) for _ in range(2))
        found: list[list[Any]] = [[], []]
        for batch in packets(script.events):
            found[0] += plain.feed(batch)
            found[1] += going.feed(batch)
            going = copied(going)
            assert len(going.take_started()) == len(plain.take_started())
    assert [(at, facts(item, script.tape)) for at, item in found[0]] == [
        (at, facts(item, script.tape)) for at, item in found[1]
    ]
    exchanges = [item for _, item in found[0] if isinstance(item, Exchange)]
    assert Counter(one.status for one in exchanges) == {Status.OK: 33, Status.NO_REPLY_EXPECTED: 7}
    assert all(one.request and one.request.size + 4 == sum(size for _, size in one.request.spans) for one in exchanges)


class Held:
    """A source that all parts of a conversation refer to."""

    def __init__(self, tape: Tape) -> None:
        self.read = tape.read


@variants
def test_a_conversation_that_is_let_go_goes_at_once(variant: str) -> None:
    script = talk()
    with using(variant):
        conversation = Conversation("c:1", "b:2", Held(script.tape), eyes())
        conversation.feed(script.events[:30])
    left = [weakref.ref(held) for held in (conversation, conversation.source)]
    gc.disable()
    try:
        del conversation
        assert [one() for one in left] == [None, None]
    finally:
        gc.enable()


@variants
@settings(deadline=None)
@given(
    version=st.integers(3, 12),
    client_id=st.none() | st.text(max_size=8),
    transactional_id=st.none() | st.text(max_size=200),
    acks=st.sampled_from([-1, 0, 1]),
    cut=st.integers(0, 300),
)
def test_acks_are_read_where_they_are(
    variant: str, version: int, client_id: str | None, transactional_id: str | None, acks: int, cut: int
) -> None:
    frame = request(0, version, 7, client_id, acks=acks, transactionalId=transactional_id, timeoutMs=0x55555555)
    wants_no_reply, found = module(variant, "loop").wants_no_reply, way(eyes(), 0, version)
    assert wants_no_reply(frame, found) is (acks == 0)
    there = frame.index(b"UUUU")
    assert wants_no_reply(frame[:there], found) is (acks == 0)
    assert wants_no_reply(frame[: min(cut, there - 1)], found) is None


@variants
@given(st.sampled_from([3, 9, 12]), st.binary(max_size=60))
def test_any_bytes_may_stand_before_acks(variant: str, version: int, rest: bytes) -> None:
    frame = request(0, version, 7, "c")[:15] + rest
    found = way(eyes(), 0, version)
    wants_no_reply = module(variant, "loop").wants_no_reply
    assert wants_no_reply(frame, found) in {None, False, True}
    assert wants_no_reply(frame, found) == loop.wants_no_reply(frame, found)


@variants
def test_tags_that_cannot_be_read_say_nothing(variant: str) -> None:
    wants_no_reply, found = module(variant, "loop").wants_no_reply, way(eyes(), 0, 9)
    start = request(0, 9, 7, "c", raw=b"")[:-1]
    acks_0 = b"\0\0\0"
    assert wants_no_reply(start + b"\0" + acks_0, found) is True
    assert wants_no_reply(start + b"\1\5\3abc" + acks_0, found) is True
    assert wants_no_reply(start + b"\2\5\3abc\6\0" + acks_0, found) is True
    assert wants_no_reply(start + b"\1\5\3ab", found) is None
    assert wants_no_reply(start + b"\xff\xff\xff\xff\xff" + acks_0, found) is False
    assert wants_no_reply(start + b"\xff\xff\xff\xff\x0f" + bytes(30), found) is None
    assert wants_no_reply(b"", None) is False
