"""Any bytes of the two sides of a connection, fed whole, by packet or byte by byte, give exchanges or problems.

They give the same ones; every exchange that starts is completed once; all of it prints as JSON; nothing else is raised;
and what a conversation holds on to is bounded by what it was fed.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from operator import itemgetter
from random import Random
from typing import Any

from kproxy.decoders.conversation.conversation import Conversation
from kproxy.decoders.conversation.dialect import DialectConversation
from kproxy.decoders.conversation.limits import Limits
from kproxy.decoders.conversation.numbering import Numbering
from kproxy.decoders.exchange import Exchange, Health, StreamProblem
from kproxy.decoders.exchange_json import exchange_json, health_json, problem_json
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import Event, Run
from tests.support.golden import golden
from tests.support.scripts import BROKER, CLIENT, Cut, Script, at_random, bytewise, eyes, facts, framed, packets, whole

MOST = 4096
"""Bytes of a side that are fed byte by byte."""
PER_BYTE = 600
"""Bytes of memory that a fed byte may cost: fed alone it is a segment, or starts an exchange of its own."""
ALLOWANCE = 4 << 20
"""For what is compiled on first use."""

CORPUS = [frame.frame for frame in golden("4.4.0")]
REQUESTS = [index for index, one in enumerate(golden("4.4.0")) if one.kind == "request"]


def _bytes(dice: Random) -> bytes:
    """A stretch of one side: something near Kafka, or not at all."""
    kind = dice.randrange(8)
    if kind == 0:
        return dice.randbytes(dice.randrange(300))
    if kind == 1:
        return bytes([dice.choice([0, 0, 0, 1, 255, dice.randrange(256)])]) * dice.randrange(200)
    if kind == 2:
        return framed(dice.randbytes(dice.randrange(60)))
    if kind == 3:
        words = [0, 1, 4, 8, 10, 12, 18, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, dice.randrange(1 << 32), 60]
        return b"".join(dice.choice(words).to_bytes(4, "big") for _ in range(dice.randrange(40)))
    frame = bytearray(CORPUS[dice.randrange(len(CORPUS))][:2000])
    if kind == 4:
        for _ in range(dice.randrange(1, 6)):
            frame[dice.randrange(len(frame))] = dice.randrange(256)
    if kind == 5:
        del frame[dice.randrange(len(frame)) :]
    if kind == 6:
        low = dice.randrange(len(frame))
        del frame[low : low + dice.randrange(1, 40)]
    return bytes(frame)


def _exchange(dice: Random, script: Script, number: int) -> None:
    """A golden request and perhaps its answer, the ids small enough to meet others."""
    at = dice.choice(REQUESTS)
    for side, where in ((CLIENT, 8), (BROKER, 4)):
        frame = bytearray(CORPUS[at + int(side)][:2000])
        if len(frame) >= 12:
            frame[where : where + 4] = number.to_bytes(4, "big")
        if dice.random() < 0.9:
            script.packets(side, bytes(frame), dice.choice([7, 100, 1448]))


def make(dice: Random) -> Script:
    """A script of a few hundred to a few thousand bytes."""
    script = Script()
    limit = dice.choice([200, 1000, MOST])
    if dice.random() < 0.7:
        _exchange(dice, script, 0)
    while sum(script.offsets.values()) < limit and len(script.events) < 400:
        side = dice.choice([CLIENT, BROKER])
        what = dice.random()
        if what < 0.35:
            _exchange(dice, script, dice.randrange(6))
        elif what < 0.75:
            script.packets(side, _bytes(dice), dice.choice([1, 13, 1448]))
        elif what < 0.85:
            script.lost(side, bytes(dice.randrange(1, dice.choice([4, 100, 100_000]))))
        elif what < 0.92:
            data = _bytes(dice)
            if data:
                script.packet(side, data, stored=dice.randrange(len(data) + 1))
        else:
            script.wait(dice.choice([1, 30, 1100, 1_000_000]))
        if dice.random() < 0.02:
            script.end(side)
    if dice.random() < 0.9:
        script.end(reason=dice.choice(["FIN", "RST", "end of capture"]))
    return script


def play(
    script: Script,
    cut: Cut,
    *,
    opened: bool,
    limits: Limits,
    known: Definitions | None = None,
    begin: Callable[..., Conversation | DialectConversation] = Conversation,
) -> tuple[list[Any], list[Any]]:
    """What comes out, as facts and as JSON."""
    health = Health()
    known = known or eyes()
    conversation = begin("c:1", "b:2", script.tape, known, opened=opened, limits=limits, health=health)
    numbering = Numbering()
    begun: set[int] = set()
    kept: list[Exchange | StreamProblem] = []
    last = 0
    for batch in cut(script.events):
        done = conversation.feed(batch)
        started = conversation.take_started()
        numbering.assign(started)
        begun.update(id(exchange) for _, exchange in started)
        assert done == sorted(done, key=itemgetter(0)), "out of order"
        assert not done or done[0][0] >= last, "before what was told already"
        last = done[-1][0] if done else last
        kept += (item for _, item in done)
    complete = [id(item) for item in kept if isinstance(item, Exchange)]
    assert len(set(complete)) == len(complete), "completed twice"
    assert begun.issuperset(complete), "completed and never started"
    if script.events[-1].side is None:
        assert begun == set(complete), "never completed"
    lines: list[Any] = []
    for item in kept:
        if isinstance(item, Exchange):
            lines.append(exchange_json(item, script.tape, known))
        else:
            lines.append(problem_json(item))
    lines.append(health_json(health))
    for line in lines:
        json.dumps(line, allow_nan=False)
    return [facts(item, script.tape) for item in kept], lines


def _bounded(script: Script, *, opened: bool) -> None:
    """Feed all but the end, and weigh what is held."""
    events: list[Event] = [event for event in script.events if isinstance(event, Run)]
    fed = sum(script.offsets.values())
    tracemalloc.start()
    try:
        conversation = Conversation("c:1", "b:2", script.tape, eyes(), opened=opened)
        before, _ = tracemalloc.get_traced_memory()
        for batch in packets(events):
            conversation.feed(batch)
            conversation.take_started()
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    stored = len(script.tape.data)
    assert held - before < PER_BYTE * stored + ALLOWANCE, f"{held - before} bytes held for {fed} fed"
    assert peak - before < 2 * PER_BYTE * stored + 2 * ALLOWANCE, f"peak of {peak - before} bytes for {fed} fed"


def once(dice: Random) -> None:
    script = make(dice)
    if not script.events:
        return
    opened = dice.random() < 0.7
    limits = dice.choice([Limits(), Limits(frame=500), Limits(outstanding=2, early=1)])
    expected = play(script, whole, opened=opened, limits=limits)
    for cut in (packets, at_random(dice.randrange(1 << 32)), bytewise):
        assert play(script, cut, opened=opened, limits=limits) == expected, "depends on how the bytes come in"
    if dice.random() < 0.05:
        _bounded(script, opened=opened)
