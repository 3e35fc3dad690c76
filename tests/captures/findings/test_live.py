"""Findings while a capture grows: what opens, becomes worse, is resolved; ids are those of a whole reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.captures.findings import live as module
from kproxy.captures.findings.live import QUIET_SECONDS, Change, Ledger, LiveFindings
from kproxy.captures.findings.reading import Findings
from kproxy.captures.reader import read
from tests.support.facts import Story, engine

CAPTURES = sorted((Path(__file__).parents[2] / "data" / "captures").glob("*.pcap"))
EXPIRED = "consumer poll timeout has expired."
GAP = "group.poll_gap"


class Fed:
    """A ledger whose engine gets a story fact by fact."""

    def __init__(self) -> None:
        self.engine = engine()
        self.ledger = Ledger(self.engine)

    def news(self, story: Story) -> list[str]:
        """Feed the facts of a story that were not fed yet; "change SEVERITY rule" of each change."""
        found = []
        for fact in story.made:
            self.engine.feed(fact)
            found += [f"{one.change} {one.finding.severity.name} {one.finding.rule}" for one in self.ledger.news()]
        story.made.clear()
        return [one for one in found if GAP in one]


def stall(story: Story, at: float) -> Story:
    return story.at(at).join("c", poll=6).at(at + 7).leave("c", EXPIRED)


def test_a_finding_opens_becomes_worse_and_is_resolved() -> None:
    story, fed = Story(), Fed()
    assert fed.news(stall(story, 0)) == [f"opened WARN {GAP}"]
    assert fed.news(stall(story, 20)) == []
    assert fed.news(stall(story, 40)) == [f"worse ERROR {GAP}"]
    assert len(fed.ledger.open) >= 1
    assert fed.news(story.at(47 + QUIET_SECONDS - 1).exchange("x")) == []
    assert fed.news(story.at(47 + QUIET_SECONDS + 1).exchange("x")) == [f"resolved ERROR {GAP}"]
    assert not fed.ledger.open


def test_a_resolved_finding_opens_again_under_its_id() -> None:
    story, fed = Story(), Fed()
    fed.news(stall(story, 0))
    (before,) = [one.id for one in fed.ledger.open.values() if one.rule == GAP]
    fed.news(story.at(1000).exchange("x"))
    assert fed.news(stall(story, 2000)) == [f"opened WARN {GAP}"]
    assert before in fed.ledger.open


def test_findings_that_were_resolved_are_forgotten_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 3)
    fed = Fed()
    for number in range(20):
        story = Story(group=f"g{number}")
        assert fed.news(stall(story, number * 1000))[-1:] == [f"opened WARN {GAP}"]
    assert len(fed.engine.findings()) <= 3 + 2, "those kept, and the last group's"


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_live_findings_are_those_of_a_whole_reading(capture: Path) -> None:
    reader = read([capture])
    found, live = Findings(reader.source, reader.definitions), LiveFindings(reader.source, reader.definitions)
    opened = []
    for batch in reader.batches():
        found.add(batch, reader.closings)
        opened += live.add(batch, reader.closings)
    opened += live.finish()
    whole = {one.id: one.severity for one in found.finish()}
    reader.close()
    assert {one.finding.id for one in opened if one.change is Change.OPENED} == set(whole)
    assert {one.finding.id: one.finding.severity for one in opened if one.change is not Change.RESOLVED} == whole
