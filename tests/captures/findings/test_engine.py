"""The engine: any facts in any order, bounded state, event time, stable ids."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kproxy.captures.findings import engine as module
from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import SECOND, Analysis, Analyzer, Context, Key, at_evidence
from kproxy.captures.findings.engine import Engine
from kproxy.captures.findings.model import EVIDENCE, Confidence, Evidence, Impact, Severity
from kproxy.captures.findings.rule import Rule, Threshold
from kproxy.captures.findings.rules import ANALYSES
from kproxy.captures.findings.table import RULES
from kproxy.decoders.problems import Code
from tests.fuzz import findings as fuzzed
from tests.support.facts import Story

RULE = Rule(
    "test.silence", 0, "Silence", Severity.ERROR, Confidence.PROVEN, "any", "", "{key} was silent", "", (),
    (Threshold("silent_s", 5, "s", "silence"),), (), "",
)  # fmt: skip


class Silence(Analyzer):
    """Reports a key that was silent for some time."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.last: Any = None

    def feed(self, fact: Any) -> None:
        self.last = fact
        self.context.wake(fact.at.time + int(self.context.limit("test.silence", "silent_s") * SECOND))

    def tick(self) -> None:
        evidence = at_evidence(self.last.at, "trigger", "last")
        self.context.report(
            "test.silence", evidence, numbers={"key": str(self.context.key)}, impact=Impact("ms_lost", 5)
        )


def quiet(**limits: float) -> Engine:
    analysis = Analysis(frozenset({"test.silence"}), Key.CONNECTION, (facts.Exchange,), Silence)
    return Engine((analysis,), {RULE.id: RULE}, limits)


def feed(engine: Engine, story: Story) -> list[str]:
    for fact in story.made:
        engine.feed(fact)
    return [one.summary for one in engine.findings()]


class Echo(Analyzer):
    """Reports every fact."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def feed(self, fact: Any) -> None:
        evidence = at_evidence(fact.at, "trigger", "fact")
        self.context.report(
            "test.silence", evidence, numbers={"key": f"{fact.topic} {fact.error}"}, impact=Impact("ms_lost", 5),
            episode=fact.at.exchange,
        )  # fmt: skip


def echoed(story: Story, **said: Any) -> list[str]:
    analysis = Analysis(frozenset({"test.silence"}), Key.TOPIC, (facts.PartitionIO, facts.OffsetLookup), Echo, **said)
    return feed(Engine((analysis,), {RULE.id: RULE}), story)


def test_facts_without_an_error_wait_for_one_with() -> None:
    story = Story().partition_io("p").partition_io("p", error=6).partition_io("p").partition_io("p", topic="u")
    assert echoed(story, errors=frozenset({6})) == ["t 6 was silent", "t 0 was silent"]
    assert len(echoed(story)) == 4


def test_facts_of_partitions_of_one_api() -> None:
    story = Story().partition_io("p", "Produce").partition_io("c", "Fetch", error=1)
    assert echoed(story, partition_api=1) == ["t 1 was silent"]
    assert len(echoed(Story().looked_up("p", -1, 5), partition_api=1)) == 1, "other facts are taken of all APIs"


def test_time_is_that_of_facts() -> None:
    story = Story().exchange("a").at(1).exchange("b").at(4).exchange("b")
    assert feed(quiet(), story) == [], "nobody was silent for 5 s yet"
    assert feed(quiet(), story.at(5.5).exchange("b")) == ["1 was silent"]


def test_the_end_of_the_capture_is_no_silence() -> None:
    engine = quiet()
    feed(engine, Story().exchange("a"))
    engine.finish()
    assert engine.findings() == []


class Once(Silence):
    """Wants one fact only."""

    def feed(self, fact: Any) -> None:
        super().feed(fact)
        self.tick()
        self.context.rest()


def test_an_analyzer_at_rest_is_neither_fed_nor_woken() -> None:
    analysis = Analysis(frozenset({"test.silence"}), Key.CONNECTION, (facts.Exchange,), Once)
    engine = Engine((analysis,), {RULE.id: RULE})
    feed(engine, Story().exchange("a").at(1).exchange("a").exchange("b").at(30).exchange("c"))
    assert [(one.scope.name, one.occurrences) for one in engine.findings()] == [("1", 1), ("2", 1), ("3", 1)]


def test_the_state_of_a_connection_ends_with_it() -> None:
    story = Story().exchange("a").exchange("b").at(1).closes("a")
    assert feed(quiet(), story.at(20).exchange("c")) == ["2 was silent"]


def test_thresholds_can_be_set() -> None:
    story = Story().exchange("a").at(4).exchange("b")
    engine = quiet(**{"test.silence.silent_s": 3})
    assert feed(engine, story) == ["1 was silent"]
    assert engine.findings()[0].limits == {"silent_s": 3}


def test_the_keys_of_an_analysis_are_bounded_and_evictions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Key, "most", property(lambda _: 10))
    engine = quiet()
    story = Story()
    for number in range(25):
        story.exchange("c", connection=number)
    feed(engine, story.at(60).exchange("c", connection=24))
    assert engine.evicted == {"connection": 15}
    assert len(engine.findings()) == 10, "the state of the others is gone, and so are their timers"


def test_findings_are_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FINDINGS", 3)
    engine = quiet()
    story = Story()
    for number in range(5):
        story.exchange("c", connection=number)
    feed(engine, story.at(60).exchange("c", connection=99))
    assert (len(engine.findings()), engine.uncounted) == (3, 2)


def test_evidence_is_bounded_and_keeps_both_ends_and_the_weightiest() -> None:
    finding = Story().closes("x", first=b"GET /", got=0).exchange("a").found()[0]
    finding.evidence.clear()
    for number in range(1, 101):
        finding.prove(Evidence(number, number, 1, "trigger", "", weight=1000 if number == 50 else number % 7))
    kept = [one.exchange for one in finding.evidence]
    assert len(kept) == EVIDENCE
    assert kept[:4] == [1, 2, 3, 4]
    assert kept[-4:] == [97, 98, 99, 100]
    assert 50 in kept


def test_what_is_inferred_is_at_most_a_warning() -> None:
    """And so is what rests on a connection with missing bytes."""
    story = Story().exchange("app").closes("x", first=b"GET /", got=0)
    sure = story.found()[0]
    less = story.trouble("x", Code.GAP).found()
    assert (sure.severity, sure.confidence) == (Severity.ERROR, Confidence.PROVEN)
    wrong = next(one for one in less if one.rule == sure.rule)
    assert wrong.confidence is Confidence.STRONG
    assert wrong.coverage == {"connections with missing bytes": 1}


def scene() -> Story:
    """Several faults at once."""
    story = Story().exchange("app").closes("http", first=b"GET / HTTP/1.1", got=0)
    story.exchange("old", "Produce", version=2, number=4).closes("old").trouble("z")
    story.join("c", poll=6).join("v").at(7).leave("c", "consumer poll timeout has expired.").at(9).join("c", 2, took=6)
    return story.at(11.5).heartbeat("c", 27).at(30).leave("c").at(31).join("d", 3)


def test_ids_are_the_same_each_time() -> None:
    first, second = ([one.id for one in scene().found()] for _ in range(2))
    assert first == second
    assert len(set(first)) == len(first) > 4


def test_a_duplicate_fact_makes_no_second_finding() -> None:
    story = scene()
    once = {(one.rule, one.scope) for one in story.found()}
    story.made = [fact for fact in story.made for _ in range(2)]
    twice = story.found()
    assert {(one.rule, one.scope) for one in twice} >= once
    assert len({one.id for one in twice}) == len(twice)


@pytest.mark.parametrize("seed", range(8))
def test_nothing_raises_whatever_comes(seed: int) -> None:
    fuzzed.once(Random(seed))


def test_a_story_that_is_shuffled_among_any_facts() -> None:
    dice = Random(5)
    made = [fuzzed.any_fact(dice) for _ in range(1000)] + scene().made
    dice.shuffle(made)
    engine = Engine(ANALYSES, RULES)
    for fact in made:
        engine.feed(fact)
    engine.finish()
    assert {one.rule for one in engine.findings()} >= {"conn.wrong_protocol", "capture.health", "group.poll_gap"}


def test_every_rule_has_a_row_and_every_row_a_rule() -> None:
    assert {rule for analysis in ANALYSES for rule in analysis.rules} == RULES.keys()
