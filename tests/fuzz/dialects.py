"""Any bytes on a port that a dialect owns, or among Kafka's with a dialect's requests, give exchanges or problems.

As `tests.fuzz.conversation` has it: the same ones however the bytes come in, each completed once, nothing raised.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from random import Random

from kproxy.captures.definitions import definitions
from kproxy.decoders.conversation.conversation import Conversation
from kproxy.decoders.conversation.dialect import DialectConversation
from kproxy.decoders.conversation.limits import Limits
from kproxy.decoders.schema import Definitions
from tests.fuzz.conversation import play
from tests.support import coordinator
from tests.support.coordinator import ASSIGNMENT, BROKERS, OFFSETS, Draft
from tests.support.scripts import BROKER, CLIENT, Script, at_random, bytewise, packets, whole


@cache
def known() -> Definitions:
    return definitions(None, ("coordinator-draft-1", "coordinator-draft-2"))


def _frames(dice: Random, draft: Draft) -> tuple[bytes, ...]:
    """A request and its answer, the correlation ids small enough to meet others."""
    number = dice.randrange(4)
    offsets = dice.choice([None, (), OFFSETS])
    choices: tuple[Callable[[], tuple[bytes, ...]], ...] = (
        lambda: (draft.consult(number), draft.coordinator(number, 7, BROKERS[: dice.randrange(3)])),
        lambda: (
            draft.register(number, "g", "c", auto_commit=dice.random() < 0.5, rest="smallest", interval=20, most=2),
        ),
        lambda: (draft.ping(number), draft.offsets(number, offsets, error=dice.choice([0, 0, 1]))),
        lambda: (draft.stop(number), draft.offsets(number, offsets)),
        lambda: (draft.start(number, ASSIGNMENT), draft.answered(number)),
    )
    return dice.choice(choices)()


def _damaged(dice: Random, frame: bytes) -> bytes:
    data = bytearray(frame)
    for _ in range(dice.choice([0, 0, 0, 1, 3])):
        data[dice.randrange(len(data))] = dice.randrange(256)
    if dice.random() < 0.05:
        del data[dice.randrange(len(data)) :]
    return bytes(data)


def make(dice: Random, draft: Draft, *, among_kafka: bool) -> Script:
    script = Script()
    for _ in range(dice.randrange(1, 40)):
        if among_kafka and dice.random() < 0.5:
            frames = [coordinator.metadata(dice.randrange(6)), coordinator.metadata_answer(dice.randrange(6))]
        else:
            frames = list(_frames(dice, draft))
        sides = [CLIENT, BROKER] if dice.random() < 0.5 else [BROKER, CLIENT]
        for side, frame in zip(sides, frames, strict=False):
            data = _damaged(dice, frame)
            what = dice.random()
            if what < 0.04:
                script.lost(side, data)
            elif what < 0.08 and data:
                script.packet(side, data, stored=dice.randrange(len(data)))
            elif what < 0.95 and data:
                script.packets(side, data, dice.choice([3, 11, 1448]))
        if dice.random() < 0.3:
            script.wait(dice.choice([5, 30, 1_000_000]))
    script.end(dice.choice([None, None, None, CLIENT, BROKER]))
    return script


def once(dice: Random) -> None:
    draft = Draft(dice.choice([1, 2]))
    among_kafka = dice.random() < 0.4
    script = make(dice, draft, among_kafka=among_kafka)
    opened = dice.random() < 0.7
    limits = dice.choice([Limits(), Limits(frame=200), Limits(outstanding=2, early=1)])
    dialect = known().dialects[draft.name]
    begin = Conversation if among_kafka else partial(DialectConversation, dialect=dialect)
    expected = play(script, whole, opened=opened, limits=limits, known=known(), begin=begin)
    for cut in (packets, at_random(dice.randrange(1 << 32)), bytewise):
        found = play(script, cut, opened=opened, limits=limits, known=known(), begin=begin)
        assert found == expected, "depends on how the bytes come in"
