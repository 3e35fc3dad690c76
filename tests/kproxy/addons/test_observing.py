"""Observers see what the reader of a capture sees, and one that fails takes nobody with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kproxy.addons import Observed, Observer, Progress
from kproxy.addons.observing import made
from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.view import View
from tests.kproxy.addons.support import CAPTURES, findings_of, observe


class Keeps(Observer):
    def __init__(self) -> None:
        self.seen: list[Observed] = []
        self.progresses: list[Progress] = []
        self.lines: list[dict[str, Any]] = []
        self.bodies: list[tuple[Any, Any]] = []
        self.closed = 0

    def exchange(self, observed: Observed) -> None:
        self.seen.append(observed)
        self.lines.append(observed.json())
        self.bodies.append((observed.request, observed.response))

    def progress(self, progress: Progress) -> None:
        self.progresses.append(progress)

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_what_is_observed_is_what_is_exported(capture: Path) -> None:
    keeps = Keeps()
    observe(capture, keeps)
    reader = read([capture])
    found = [item for item in reader if isinstance(item, Exchange)]
    exported = [
        exchange_json(item, reader.source, reader.definitions, view=View(), precision=reader.precision)
        for item in found
    ]
    assert keeps.lines == exported
    for observed, line, (request, response) in zip(keeps.seen, exported, keeps.bodies, strict=True):
        assert observed.api == line["api"]
        assert observed.status.value == line["status"]
        assert list(observed.errors) == line["error_codes"]
        assert (observed.client, observed.broker) == (line["client"], line["broker"])
        assert set(request or ()) == {name for name in (line["request"] or {}).get("body") or () if name[0] != "_"}
        throttle = ((line["response"] or {}).get("body") or {}).get("throttleTimeMs") or 0
        assert observed.throttle == throttle / 1000
        assert (response is None) == ((line["response"] or {}).get("body") is None)
    assert keeps.progresses[-1].behind == 0
    assert keeps.progresses[-1].health.packets == reader.health.packets
    assert keeps.closed == 1


class Chooses(Keeps):
    """In `__init__`, as one does that is told its filter from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.filter = text


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_a_filter_chooses_what_is_seen(capture: Path) -> None:
    """Of what an observer without one sees; a filter on what other exchanges tell hears of those that do not match."""
    everything = Keeps()
    api, error, broker = Chooses("api == Produce"), Chooses("error"), Chooses("broker in (0, 1, 2, 3) and api == Fetch")
    observe(capture, everything, api, error, broker)
    lines = everything.lines
    assert {line["api"] for line in lines} > {"Produce", "Fetch"}
    assert api.lines == [line for line in lines if line["api"] == "Produce"]
    assert error.lines == [line for line in lines if line["error_codes"]]
    assert broker.lines == [line for line in lines if line["api"] == "Fetch"]
    assert error.progresses[-1].unknown == 0


def test_what_a_filter_cannot_tell_is_counted() -> None:
    """Nothing before the first Metadata names the broker."""
    first = Chooses("broker in (0, 1, 2, 3)")
    everything = Keeps()
    observe(CAPTURES[-1], everything, first)
    unknown = first.progresses[-1].unknown
    assert unknown > 0
    assert len(first.lines) == len(everything.lines) - unknown
    assert everything.progresses[-1].unknown == 0


def test_a_mistake_in_a_filter_names_its_observer() -> None:
    said: list[str] = []
    keeps, wrong = Keeps(), Chooses("latency > soon")
    wrong.name = "mine"
    observe(CAPTURES[0], wrong, keeps, warn=lambda message, _: said.append(message))
    assert said == [f"observer mine: filter: {said[0].partition('filter: ')[2]}"]
    assert said[0].endswith("(column 11 of 'latency > soon'); it is left out")
    assert not wrong.seen
    assert not wrong.progresses
    assert keeps.lines


@pytest.mark.parametrize("method", ["exchange", "progress", "close"])
def test_one_that_fails_is_named_and_the_others_go_on(method: str) -> None:
    calls = []

    class Fails(Observer):
        name = "the bad one"

    def fail(*arguments: object) -> None:
        calls.append(arguments)
        raise RuntimeError("why")

    setattr(Fails, method, fail)
    said: list[tuple[str, str]] = []
    before, after = Keeps(), Keeps()
    observe(CAPTURES[0], before, Fails(), after, warn=lambda message, details: said.append((message, details)))
    assert len(calls) == 1
    ((message, details),) = said
    assert message == "observer the bad one has failed and is disabled: RuntimeError: why"
    assert "Traceback" in details
    assert before.lines == after.lines != []
    assert before.closed == after.closed == 1


def test_one_that_cannot_be_made_is_left_out() -> None:
    class Needs(Observer):
        def __init__(self, what: str) -> None: ...

    said: list[str] = []
    found = made([Needs, Keeps], lambda message, details: said.append(message))  # noqa: ARG005 (a warning has both)
    assert [type(one) for one in found] == [Keeps]
    assert said[0].startswith("observer Needs is left out: TypeError")


class Findings(Observer):
    filter = "api == Produce"

    def __init__(self) -> None:
        self.found: list[tuple[str, str, str]] = []

    def finding(self, change: str, finding: dict[str, Any]) -> None:
        self.found.append((change, finding["rule"], finding["id"]))


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_findings_are_those_of_the_whole_traffic_whatever_the_filter(capture: Path) -> None:
    seen = Findings()
    observe(capture, seen, Keeps())
    assert sorted(seen.found) == sorted(("opened", one.rule, one.id) for one in findings_of(capture))


def test_rules_are_evaluated_only_if_somebody_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from kproxy.captures.findings import live

    def fail(*_: object) -> None:
        raise AssertionError("rules were evaluated")

    monkeypatch.setattr(live.LiveFindings, "__init__", fail)
    keeps = Keeps()
    observe(CAPTURES[0], keeps)
    assert keeps.seen
