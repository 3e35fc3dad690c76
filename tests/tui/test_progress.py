from __future__ import annotations

import io
import sys

import pytest

from kproxy.captures.reader import read
from kproxy.cli import progress as chosen
from kproxy.tui import progress
from tests.captures import traffic


def test_items_pass_and_a_bar_is_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", stream)
    seen = iter(range(10))
    assert list(progress.shown("abc", "reading", 10, lambda: next(seen))) == ["a", "b", "c"]
    assert next(seen) == 3
    assert "reading" in stream.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_only_on_a_terminal(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen, "LEAST", 0)
    monkeypatch.setattr(progress, "INTERVAL", 0)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    assert sum(map(len, chosen.batches(read(traffic.LIBRDKAFKA)))) == 176
    assert bool(stream.getvalue()) is terminal


def test_a_bar_is_in_nobody_s_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen, "LEAST", 0)
    stream, out = io.StringIO(), io.BytesIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(out, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", stream)
    assert sum(map(len, chosen.batches(read(traffic.LIBRDKAFKA), out))) == 176
    assert stream.getvalue() == ""
