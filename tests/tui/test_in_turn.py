"""Keys that arrive in one read, through a pseudo-terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.screens import Painted

SHOW = "import sys, tui; tui.run(sys.argv[1])"
PASTED = "\x1b[200~{}\x1b[201~"


@pytest.fixture
def screen(index: Path) -> Iterator[Painted]:
    environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    with Painted([sys.executable, "-c", SHOW, str(index)], environment) as painted:
        painted.wait_for("1/60")
        yield painted


@pytest.mark.parametrize(
    ("keys", "painted"),
    [
        ("fexchange > 3\r", "[f: exchange > 3]"),
        ("f" + PASTED.format("exchange > 3") + "\r", "[f: exchange > 3]"),
        (":filter exchange > 3\r", "[f: exchange > 3]"),
        ("/exchange > 3\r", "[f: exchange > 3]"),
        ("\x06Metadata\r", "[find: "),
        (";jkQ\r", ";       1 "),
        ("\x077\r", "7/60"),
        ("fexchange > 3\rG", "57/57"),
        ("fexchange > 3\r ", "10/57"),
        ("fexchange > 3\rf\x15exchange > 5\r\x073\x7f9\r", "4/55"),
        ("jjjj", "5/60"),
        ("jjj\r}}jjj", "bytes 0x0008-0x000d"),
        ("jjj\t}}jjj", "bytes 0x0008-0x000d"),
    ],
)
def test_each_key_goes_where_those_before_it_led(screen: Painted, keys: str, painted: str) -> None:
    screen.press(keys)
    screen.wait_for(painted)
    screen.press("\x03\x03")
    assert screen.end() == 0


def test_what_is_pasted_into_the_list_is_no_keys(screen: Painted) -> None:
    screen.press(PASTED.format("QqG:f\rj") + "j")
    screen.wait_for("2/60")
    screen.press(PASTED.format("Q" * 5000 + "\n\x03\x03") + "j")
    screen.wait_for("3/60")
    screen.press("Q")
    assert screen.end() == 0
