"""A terminal that is gone, stopped, tiny, without colours: the interface through a pseudo-terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from kproxy.cli.exits import Exit
from kproxy.runs.launcher import wait_until
from kproxy.tui.terminal.driver import Output
from tests.support.patience import SECONDS
from tests.support.screens import Painted
from tests.support.thinned import thinned

SHOW = "import sys, tui; tui.run(sys.argv[1])"
REPLAY = "from kproxy.cli.main import main; main()"
CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "kafka-0.8.2.2.pcap"
LEFT = b"\x1b[?1049l"


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "TERM"}}
    return {**kept, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **more}


@pytest.fixture
def screen(index: Path) -> Iterator[Painted]:
    with Painted([sys.executable, "-c", SHOW, str(index)], environment()) as painted:
        painted.wait_for("1/60")
        yield painted


@pytest.fixture
def replay(tmp_path: Path) -> Iterator[Painted]:
    command = [sys.executable, "-c", REPLAY, "replay", str(CAPTURE)]
    with Painted(command, environment(XDG_CACHE_HOME=str(tmp_path))) as painted:
        painted.wait_for("154 ex")
        yield painted


def left(cache: Path) -> list[Path]:
    """What is there beside indexes that are kept."""
    home = cache / "kproxy"
    return [path for path in home.rglob("*") if path.is_file() and home / "indexes" not in path.parents]


def test_a_terminal_that_is_gone_ends_it_without_a_signal(replay: Painted, tmp_path: Path) -> None:
    replay.press("5")  # who adds up for this screen is a process too
    replay.wait_for("Stats")
    replay.hang_up()
    assert replay.end() == Exit.PIPE
    assert not left(tmp_path)
    assert wait_until(lambda: not _others(replay.process.pid), SECONDS)


def _others(session: int) -> list[int]:
    """The processes of a session."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(place.parent.name))
    return found


def test_sigterm_leaves_and_gives_the_terminal_back(replay: Painted, tmp_path: Path) -> None:
    replay.process.send_signal(signal.SIGTERM)
    assert replay.end() == 0
    assert LEFT in replay.seen
    assert replay.attributes == replay.before
    assert not left(tmp_path)


NOT_TEXT = (b"\xff", b"\xc3\x28", b"\xe6\x97", b"\x80\x80\x80", b"\xf0\x28\x8c\xbc", b"\x1b[200~\xff\xfe\x1b[201~")


@pytest.mark.parametrize("data", thinned(NOT_TEXT, 1))
def test_input_that_is_not_text_changes_nothing(replay: Painted, data: bytes) -> None:
    replay.press(data)
    replay.press("5")
    replay.wait_for("Stats")
    replay.press("1f" + "x")
    replay.press(data + b"y")
    replay.wait_for("\ufffd")  # typed into the filter
    replay.process.send_signal(signal.SIGTERM)
    assert replay.end() == 0


def test_sighup_leaves_nothing_behind(replay: Painted, tmp_path: Path) -> None:
    replay.process.send_signal(signal.SIGHUP)
    assert replay.end() == Exit.PIPE
    assert not left(tmp_path)


def test_sigterm_ends_it_where_the_terminal_takes_no_output(replay: Painted, tmp_path: Path) -> None:
    for _ in range(200):
        replay.press("jk")
    replay.process.send_signal(signal.SIGTERM)
    assert replay.process.wait(SECONDS) == 0
    assert not left(tmp_path)


def test_ctrl_z_gives_the_terminal_back_and_going_on_paints_again(index: Path) -> None:
    # a shell between us, whose job it is
    command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", SHOW, str(index)]
    with Painted(command, environment()) as screen:
        screen.wait_for("1/60")
        (job,) = set(_others(screen.process.pid)) - {screen.process.pid}
        for number in (2, 3):
            screen.press("\x1a")
            while LEFT not in screen.seen:
                assert screen.read()
            assert wait_until(
                lambda: Path(f"/proc/{job}/stat").read_text().rpartition(")")[2].split()[0] == "T", SECONDS
            )
            assert screen.attributes == screen.before
            screen.seen = b""
            os.kill(job, signal.SIGCONT)
            screen.wait_for(f"{number - 1}/60")
            screen.press("j")
            screen.wait_for(f"{number}/60")
        screen.press("Q")
        assert screen.end() == 0
        assert screen.attributes == screen.before


def test_going_on_without_a_stop_leaves_one_reader_of_keys(screen: Painted) -> None:
    process = Path(f"/proc/{screen.process.pid}")
    threads = len(list((process / "task").iterdir()))
    for number in range(2, 6):
        screen.press("")
        screen.process.send_signal(signal.SIGCONT)
        while LEFT not in screen.seen:
            assert screen.read()
        screen.wait_for(f"{number - 1}/60")
        screen.press("j")
        screen.wait_for(f"{number}/60")
    assert len(list((process / "task").iterdir())) == threads
    screen.press("Q")
    assert screen.end() == 0
    assert screen.attributes == screen.before


def test_ctrl_z_stops_nothing_that_nobody_could_start_again(screen: Painted) -> None:
    screen.press("\x1aj")
    screen.wait_for("no shell")
    screen.press("Q")
    assert screen.end() == 0


def test_sizes_that_change_faster_than_it_paints(screen: Painted) -> None:
    for number in range(300):
        screen.resize(1 + number % 200, 1 + number * 7 % 60)
        screen.read(0)
    screen.resize(1, 1)
    screen.read()
    screen.press("jjG")
    screen.resize(120, 40)
    screen.wait_for("60/60")
    screen.press("Q")
    assert screen.end() == 0


@pytest.mark.parametrize("term", ["linux", "unknown-to-all"])
def test_any_terminal_is_painted_on(index: Path, term: str) -> None:
    with Painted([sys.executable, "-c", SHOW, str(index)], environment(TERM=term)) as screen:
        screen.wait_for("1/60")
        screen.press("fexchange > 3\r")
        screen.wait_for("[f: exchange > 3]")
        screen.press("Q")
        assert screen.end() == 0


def test_a_terminal_without_a_cursor_to_place_gets_lines() -> None:
    command = [sys.executable, "-c", REPLAY, "replay", str(CAPTURE), "-Y", "api == Produce"]
    with Painted(command, environment(TERM="dumb")) as screen:
        assert screen.end() == 0
        assert "Produce" in screen.text
        assert b"\x1b" not in screen.seen


@pytest.mark.parametrize("plain", [True, False])
def test_no_color_is_none(index: Path, *, plain: bool) -> None:
    more = {"NO_COLOR": "1"} if plain else {}
    with Painted([sys.executable, "-c", SHOW, str(index)], environment(**more)) as screen:
        screen.wait_for("1/60")
        screen.press("Q")
        assert screen.end() == 0
        colours = [
            number
            for found in re.findall(rb"\x1b\[([0-9;]*)m", screen.seen)
            for number in found.split(b";")
            if number[:1] in {b"3", b"4", b"9"} and len(number) > 1 and number not in {b"39", b"49"}
        ]
        assert bool(colours) is not plain, colours


@pytest.mark.parametrize(
    ("more", "arguments", "is_ascii"),
    [
        ({}, [], False),
        ({"LC_ALL": "C"}, [], True),
        ({"LC_ALL": "C", "PYTHONUTF8": "1"}, [], False),
        ({}, ["--ascii"], True),
    ],
    ids=["utf-8", "C", "C, but told otherwise", "option"],
)
def test_glyphs_are_those_that_the_locale_has(
    tmp_path: Path, more: dict[str, str], arguments: list[str], is_ascii: bool
) -> None:
    command = [sys.executable, "-c", REPLAY, "replay", str(CAPTURE), *arguments]
    with Painted(command, environment(XDG_CACHE_HOME=str(tmp_path), **more)) as screen:
        screen.wait_for("154 ex")
        screen.press("\r}}")
        screen.wait_for("correlationId")
        assert screen.text.isascii() is is_ascii


def test_what_threads_write_at_once_stays_in_one_piece() -> None:
    size = 100_000
    out, into = os.pipe()
    output = Output(into, "utf-8", pytest.fail)

    def write(letter: bytes) -> None:
        for _ in range(20):
            output.put(letter * size)

    writers = [Thread(target=write, args=(letter,)) for letter in (b"a", b"b")]
    for writer in writers:
        writer.start()
    with os.fdopen(out, "rb") as reader:
        pieces = [reader.read(size) for _ in range(40)]
    for writer in writers:
        writer.join()
    os.close(into)
    assert {bytes(set(piece)) for piece in pieces} == {b"a", b"b"}
