"""Properties: results do not depend on how bytes are cut into batches; nothing is raised or forgotten."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kproxy.decoders.conversation.conversation import Conversation
from kproxy.decoders.conversation.limits import Limits
from kproxy.decoders.conversation.numbering import Numbering
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.stream import Side
from tests.support.golden import golden
from tests.support.scripts import (
    BROKER,
    CLIENT,
    Script,
    at_random,
    bytewise,
    eyes,
    framed,
    packets,
    play,
    request,
    response,
    whole,
)

KINDS = ["ask", "answer", "acks0", "lose", "lose answer", "junk", "handshake", "token", "wait", "snap"]
STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "answer", *KINDS]), st.integers(0, 5), st.integers(0, 40)), max_size=14
)


def script_of(steps: list[tuple[str, int, int]]) -> Script:
    """A conversation with every kind of event."""
    script = Script()
    waiting: list[tuple[int, int, int]] = []
    number = 0
    for step, which, amount in steps:
        key, version = [(3, 12), (1, 12), (0, 9), (12, 4), (18, 3), (32001, 0)][which]
        if step in {"ask", "lose", "snap"}:
            number += 1
            raw = b"body" * amount if key == 32001 else None
            data = request(key, version, number, raw=raw)
            waiting.append((key, version, number))
            if step == "ask":
                script.packets(CLIENT, data, 1 + amount)
            elif step == "snap":
                script.client(data, stored=amount)
            else:
                cut = min(amount, len(data) - 1)
                script.client(data[:cut]).lost(CLIENT, data[cut:])
        elif step in {"answer", "lose answer"} and waiting:
            key, version, asked = waiting.pop(which % len(waiting))
            data = response(key, version, asked, raw=b"tail" * amount if key == 32001 else None)
            if step == "answer":
                script.packets(BROKER, data, 1 + amount)
            else:
                cut = min(amount, len(data) - 1)
                script.broker(data[:cut]).lost(BROKER, data[cut:])
        elif step == "acks0":
            number += 1
            script.client(request(0, 9, number, acks=0, timeoutMs=0, topicData=[]))
        elif step == "junk":
            script.packet(Side(which % 2), random.Random(amount).randbytes(amount + 1))
        elif step == "handshake":
            number += 1
            script.client(request(17, 0, number, mechanism="PLAIN")).broker(response(17, 0, number))
        elif step == "token":
            script.client(framed(b"\x00u\x00p" * which)).broker(framed(b""))
        else:
            script.wait(amount * 100)
    return script


def check(script: Script, seed: int, **options: Any) -> None:
    """Assert that the result is the same however packets are cut and joined."""
    expected = play(script, whole, **options).facts()
    for cut in (packets, bytewise, at_random(seed)):
        assert play(script, cut, **options).facts() == expected


@settings(max_examples=30, deadline=None)
@given(STEPS, st.booleans(), st.booleans(), st.integers(0, 2**32))
@example([("ask", 0, 0), ("lose answer", 0, 0)], False, False, 0)
def test_however_the_bytes_come_in(steps: list[tuple[str, int, int]], opened: bool, ended: bool, seed: int) -> None:
    script = script_of(steps)
    if ended:
        script.end(reason="FIN" if seed % 2 else "end of capture")
    check(script, seed, opened=opened)


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200), st.booleans(), st.integers(0, 2**32))
def test_any_bytes(asked: bytes, answered: bytes, opened: bool, seed: int) -> None:
    dice = random.Random(seed)
    script = Script()
    if dice.random() < 0.7:
        script.client(request(3, 12, 1))
    sides = {CLIENT: asked, BROKER: answered}
    while any(sides.values()):
        side = dice.choice([CLIENT, BROKER])
        size = dice.randrange(1, 60)
        script.packet(side, sides[side][:size])
        sides[side] = sides[side][size:]
    check(script.end(), seed, opened=opened)


@pytest.mark.parametrize("seed", range(3))
def test_golden_frames_of_one_connection_in_any_pieces(seed: int) -> None:
    """Frames of every API, pipelined, with distinct correlation ids."""
    dice = random.Random(seed)
    pairs: dict[int, dict[str, Any]] = {}
    for one in golden("4.4.0"):
        pairs.setdefault(one.correlation_id, {})[one.kind] = one
    chosen = dice.sample(sorted(pairs), 60)
    script = Script()
    waiting: list[bytes] = []
    for number, name in enumerate(chosen):
        asked, answered = (bytearray(pairs[name][kind].frame) for kind in ("request", "response"))
        asked[8:12] = answered[4:8] = number.to_bytes(4, "big")
        script.packets(CLIENT, bytes(asked), dice.randrange(1, 500))
        waiting.append(bytes(answered))
        while waiting and dice.random() < 0.5:
            script.packets(BROKER, waiting.pop(dice.randrange(len(waiting))), dice.randrange(1, 500))
    for data in waiting:
        script.broker(data)
    script.end()
    played = play(script)
    assert {(e.api_key, e.api_version, e.correlation_id) for e in played.exchanges} == {
        (pairs[name]["request"].api_key, pairs[name]["request"].api_version, number)
        for number, name in enumerate(chosen)
    }
    assert {e.status.value for e in played.exchanges} <= {"ok", "no_reply_expected"}
    check(script, seed)


@settings(max_examples=25, deadline=None)
@given(STEPS, st.integers(0, 2**32))
def test_every_exchange_that_starts_is_completed_once(steps: list[tuple[str, int, int]], seed: int) -> None:
    script = script_of(steps).end()
    conversation = Conversation("c:1", "b:2", script.tape, eyes(), limits=Limits(outstanding=3))
    started: list[tuple[int, Exchange]] = []
    done: list[Exchange] = []
    last = 0
    for batch in at_random(seed)(script.events):
        for at, item in conversation.feed(batch):
            assert at >= last
            last = at
            if isinstance(item, Exchange):
                done.append(item)
        begun = conversation.take_started()
        Numbering().assign(begun)
        started += begun
    assert sorted(map(id, done)) == sorted(id(exchange) for _, exchange in started)
    assert all(exchange.status != "waiting" for exchange in done)


def test_numbers_follow_addresses_over_connections() -> None:
    scripts = [Script(), Script()]
    tape = scripts[0].tape
    scripts[1].tape = tape
    scripts[0].client(request(3, 12, 1))
    scripts[1].client(request(3, 12, 2))
    scripts[0].client(request(3, 12, 3))
    numbering = Numbering()
    started: list[tuple[int, Exchange]] = []
    for script in reversed(scripts):
        conversation = Conversation("c:1", "b:2", tape, eyes())
        conversation.feed(script.events)
        started += conversation.take_started()
    numbering.assign(started)
    assert [(e.number, e.connection.number, e.correlation_id) for _, e in started] == [(1, 1, 1), (2, 2, 2), (3, 1, 3)]
