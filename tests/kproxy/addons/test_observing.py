"""Observers see what the reader of a capture sees, and one that fails takes nobody with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from captures.reader import read
from decoders.exchange import Exchange
from decoders.exchange_json import exchange_json
from decoders.view import View
from kproxy.addons import Observed, Observer, Progress
from kproxy.addons.observing import made
from tests.kproxy.addons.support import CAPTURES, observe


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
    assert message == "observer the bad one has failed and sees nothing more: RuntimeError: why"
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
