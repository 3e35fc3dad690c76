"""When the terminal UI may open, and what output loses."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from kproxy.cli.terminal import can_paint, standard_output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stderr", [Terminal(), io.StringIO(), None])
@pytest.mark.parametrize("piped", ["stdin", "stdout"])
def test_it_takes_a_terminal_for_input_and_output(piped: str, stderr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(sys, name, Terminal())
    monkeypatch.setattr(sys, "stderr", stderr)
    assert can_paint()
    monkeypatch.setattr(sys, piped, io.StringIO())
    assert not can_paint()
    assert can_paint(keys_from_stdin=False) is (piped == "stdin")


def test_a_closed_stream_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stdout", None)
    assert not can_paint()


def test_no_byte_is_forgotten_where_output_is_not_buffered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(io.FileIO):
        """Takes a few bytes a write, as the system does of more than 2 GiB."""

        def write(self, data: Any, /) -> int:
            return super().write(memoryview(data)[:3])

    with Slow(tmp_path / "raw", "w") as raw:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, write_through=True))
        out = standard_output()
        out.write(b"more than three")
        out.flush()
    assert (tmp_path / "raw").read_bytes() == b"more than three"
