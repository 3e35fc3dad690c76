"""Whatever facts come, in whatever order: nothing raises, no finding comes twice, evidence and text are there."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import SECOND
from kproxy.captures.findings.correlator import correlate
from kproxy.captures.findings.engine import Engine
from kproxy.captures.findings.model import EVIDENCE, Confidence, Severity
from kproxy.captures.findings.rules import ANALYSES
from kproxy.captures.findings.table import RULES
from kproxy.decoders.exchange import Status
from kproxy.decoders.problems import Code
from tests.support.facts import BEGAN

FACTS = 2000


def any_fact(dice: Random) -> facts.Fact:
    """Any fact, of few keys so that facts meet."""
    kind: Any = dice.choice(facts.KINDS)
    time = BEGAN + dice.randrange(-60, 600) * SECOND // 4
    at = facts.At(
        time, time - dice.randrange(20) * SECOND, dice.randrange(50), dice.randrange(4), f"h{dice.randrange(3)}",
        dice.choice(["", "app", "{0}"]), f"b{dice.randrange(2)}:9092", dice.randrange(-1, 20), dice.randrange(-1, 12),
    )  # fmt: skip
    values: dict[str, Callable[[], Any]] = {
        "int": lambda: dice.choice([-1, 0, 1, 22, 25, 27, 82, 111, 1 << 40]),
        "int | None": lambda: dice.choice([None, 0, 1, 2, 3, 6000, 1 << 40]),
        "str": lambda: dice.choice(["", "g", "m", "n", "classic", "consumer", "join", "leave", "heartbeat", *Code]),
        "str | None": lambda: dice.choice([None, "i", "consumer poll timeout has expired.", "left"]),
        "float | None": lambda: dice.choice([None, 0.0, 0.5, 3.0]),
        "At": lambda: at._replace(time=time - dice.randrange(40) * SECOND),
        "Content": lambda: any_content(dice),
        "bool": lambda: dice.random() < 0.5,
        "bool | None": lambda: dice.choice([None, True, False]),
        "bytes": lambda: dice.choice([b"", b"GET /", b"\x16\x03"]),
        "Status": lambda: dice.choice(list(Status)),
        "tuple[int, int, int]": lambda: (dice.randrange(9), dice.randrange(5000), dice.randrange(5000)),
        "tuple[int, ...]": lambda: tuple(dice.randrange(9) for _ in range(dice.randrange(3))),
        "tuple[int, ...] | None": lambda: dice.choice([None, (), (1,), (1, 2), (2, 3), (3, 1, 2)]),
        "tuple[tuple[str, int, int], ...]": lambda: (
            (dice.choice("gt"), dice.randrange(-1, 9), dice.choice([1, 5000, 1 << 29])),
        ),
        "tuple[str, ...]": lambda: (),
        "tuple[Append, ...]": lambda: tuple(filled(facts.Append) for _ in range(dice.randrange(3))),
        "tuple[FetchedPartition, ...]": lambda: tuple(any_partition(dice) for _ in range(dice.randrange(4))),
        "tuple[tuple[int, int, int], ...]": lambda: ((dice.randrange(20), dice.randrange(5), dice.randrange(12)),),
    }

    def filled(kind: Any) -> Any:
        return kind(
            *(at if name == "at" else values[text.__forward_arg__]() for name, text in kind.__annotations__.items())
        )

    fact: facts.Fact = filled(kind)
    return fact


def any_content(dice: Random) -> facts.Content:
    numbers = [dice.choice([0, 1, 100, 600_000]) for _ in range(6)]
    keys = tuple((b"k%d" % dice.randrange(99), dice.randrange(1, 9)) for _ in range(dice.randrange(40)))
    framed = tuple((dice.randrange(1, 20), dice.randrange(1, 50)) for _ in range(dice.randrange(3)))
    ratio = dice.choice([None, 0.0, 0.5, 3.0])
    read, plain, largest, key_bytes, header_bytes, behind = numbers
    return facts.Content(ratio, read, plain, largest, key_bytes, header_bytes, keys, framed, behind)


def any_partition(dice: Random) -> facts.FetchedPartition:
    numbers = [dice.choice([None, 0, 1, 100, 20_000, 1 << 40]) for _ in range(4)]
    return facts.FetchedPartition("t", dice.randrange(2), numbers[0], dice.choice([0, 1, 1000]), *numbers[1:])


def once(dice: Random) -> None:
    engine = Engine(ANALYSES, RULES)
    made = [any_fact(dice) for _ in range(FACTS)]
    made += dice.sample(made, FACTS // 10)
    dice.shuffle(made)
    for fact in made:
        engine.feed(fact)
    engine.finish()
    found = correlate(engine.findings(), RULES, engine.views.whole)
    assert len({one.id for one in found}) == len(found) == len(engine.findings())
    for one in found:
        assert one.summary
        assert len(one.evidence) <= EVIDENCE
        assert one.severity <= Severity.WARN or one.confidence > Confidence.INFERRED
