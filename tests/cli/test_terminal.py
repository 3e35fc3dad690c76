"""When the terminal UI may open."""

from __future__ import annotations

import io
import sys

import pytest

from kproxy.cli.terminal import can_paint


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("piped", ["stdin", "stdout", "stderr"])
def test_it_takes_a_terminal_on_every_stream(piped: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, Terminal())
    assert can_paint()
    monkeypatch.setattr(sys, piped, io.StringIO())
    assert not can_paint()
    assert can_paint(keys_from_stdin=False) is (piped == "stdin")


def test_a_closed_stream_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(sys, name, Terminal())
    monkeypatch.setattr(sys, "stderr", None)
    assert not can_paint()
