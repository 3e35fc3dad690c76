"""Knowledge from other flows counts from the place at which it was learnt."""

from __future__ import annotations

from kproxy.captures.spark.read.closing import Numbers
from kproxy.captures.spark.read.facts import NODE, Facts
from kproxy.decoders.knowledge import MOST, RESERVED, Fact

TOPIC = Fact.TOPIC.value


def test_what_is_known_depends_on_the_place() -> None:
    facts = Facts(
        [(TOPIC, "aa", "new", (30, 1, 1)), (TOPIC, "aa", "old", (10, 1, 4)), (TOPIC, "aa", "old", (20, 0, 0))]
    )
    assert facts.known(TOPIC, "aa", (10, 1, 3)) is None
    assert facts.known(TOPIC, "aa", (10, 1, 4)) == "old"
    assert facts.known(TOPIC, "aa", (30, 1, 0)) == "old"
    assert facts.known(TOPIC, "aa", (30, 1, 1)) == "new"
    assert facts.known(TOPIC, "bb", (30, 1, 1)) is None
    for topic_id, name in RESERVED.items():
        assert facts.known(TOPIC, topic_id.hex(), (0, 0, 0)) == name


def test_as_much_is_kept_as_one_process_keeps() -> None:
    many = [(TOPIC, f"{number:032x}", "x", (number, 0, 0)) for number in range(2, MOST + 20)]
    facts = Facts([*many, (NODE, "9092 broker", "7", (MOST + 30, 0, 0))])
    known = sum(facts.known(TOPIC, about, (MOST + 40, 0, 0)) is not None for _, about, _, _ in many)
    assert known == MOST - len(RESERVED)
    assert facts.nodes["broker", 9092] == ([(MOST + 30, 0, 0)], ["7"])


def test_numbers_go_on_from_range_to_range() -> None:
    numbers = Numbers.of([("exchange", 7, 3), ("begun", 7, 2), ("flow", 7, 1), ("exchange", 2, 10), ("problem", 2, 9)])
    assert numbers.before == {"exchange": {2: 0, 7: 10}, "flow": {7: 0}}
