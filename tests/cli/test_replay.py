"""`kproxy replay` where there is no terminal, and in one (a pseudo-terminal)."""

from __future__ import annotations

import errno
import fcntl
import gzip
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.cli.exits import Exit
from kproxy.cli.main import main

DATA = Path(__file__).parents[1] / "data" / "captures"
CAPTURE = DATA / "kafka-0.8.2.2.pcap"
KPROXY = [sys.executable, "-c", "from kproxy.cli.main import main; main()"]
LINE = re.compile(r"\d\d:\d\d:\d\d\.\d{3} +\d+ .{21} > .{21} [A-Z]")


def replay(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["replay", *arguments], input=stdin)


def test_one_line_an_exchange() -> None:
    result = replay(str(CAPTURE))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 154
    assert all(LINE.match(line) for line in lines)
    assert sum("no reply due" in line for line in lines) == 18
    assert sum("no response" in line for line in lines) == 2


def test_the_filter_the_count_and_the_times_select() -> None:
    assert len(replay(str(CAPTURE), "-Y", "error").stdout.splitlines()) < 50
    assert len(replay(str(CAPTURE), "-c", "5").stdout.splitlines()) == 5
    assert replay(str(CAPTURE), "--until", "2001-01-01T00:00:00Z").stdout == ""
    assert replay(str(CAPTURE), "-Y", "latenzy > 1").exit_code == Exit.USAGE


def test_json_is_the_exchange_json() -> None:
    result = replay(str(CAPTURE), "--json", "-c", "3")
    kinds = [json.loads(line)["schema"] for line in result.stdout.splitlines()]
    assert kinds == ["kproxy.exchange/1"] * 3 + ["kproxy.health/1"]


def test_a_cut_capture_is_printed_up_to_the_cut_then_exit_3(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(CAPTURE.read_bytes()[:100_000])
    result = replay(str(cut))
    assert result.exit_code == Exit.INPUT
    assert len(result.stdout.splitlines()) > 50
    assert len(result.stderr.splitlines()) == 1
    assert f"{cut}: byte 99784: ends inside a packet" in result.stderr


@pytest.mark.parametrize("content", [None, b"", b"just text\n", CAPTURE.read_bytes()[:10]])
def test_unreadable_input_is_one_line_and_exit_3(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "odd.pcap"
    if content is not None:
        path.write_bytes(content)
    result = replay(str(path))
    assert result.exit_code == Exit.INPUT
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert str(path) in result.stderr


class Terminal:
    """A command on a pseudo-terminal of 100x30."""

    def __init__(self, *command: str, environment: dict[str, str], stdin: Path | None = None) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            if stdin is not None:
                os.dup2(os.open(stdin, os.O_RDONLY), 0)
            os.execve(sys.executable, [*KPROXY, *command], environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.seen = b""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while text.encode() not in self.seen:
            assert time.monotonic() < deadline, self.seen[-2000:]
            if select.select([self.fd], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    assert text.encode() in self.seen, self.seen[-2000:]

    def press(self, keys: str) -> None:
        self.seen = b""
        os.write(self.fd, keys.encode())

    def end(self) -> int:
        """The exit code; what is still written is read away."""
        while True:
            try:
                if not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TERM": "xterm-256color", "XDG_CACHE_HOME": str(tmp_path / "cache"), "LC_ALL": "C.UTF-8"}


def left_behind(environment: dict[str, str]) -> list[Path]:
    """The files that are still there, but for indexes that are kept."""
    home = Path(environment["XDG_CACHE_HOME"]) / "kproxy"
    return [path for path in home.rglob("*") if path.is_file() and home / "indexes" not in path.parents]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_on_a_terminal_it_is_the_terminal_interface(environment: dict[str, str]) -> None:
    terminal = Terminal("replay", str(CAPTURE), "-Y", "api == Produce", environment=environment)
    terminal.wait_for("Topic/Group/Txn")
    terminal.wait_for("no reply due")
    terminal.press("q")
    assert terminal.end() == 0
    assert not left_behind(environment)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_pipe_is_the_capture_and_keys_come_from_the_terminal(environment: dict[str, str]) -> None:
    terminal = Terminal("replay", "-", environment=environment, stdin=CAPTURE)
    terminal.wait_for("LeaderAndIsr")
    terminal.press("\r}}")
    terminal.wait_for("MetadataResponse")
    terminal.press("Q")
    assert terminal.end() == 0
    assert not left_behind(environment)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_cut_capture_is_shown_then_exit_3(tmp_path: Path, environment: dict[str, str]) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(CAPTURE.read_bytes()[:100_000])
    terminal = Terminal("replay", str(cut), environment=environment)
    terminal.wait_for("ends inside")
    terminal.press("Q")
    assert terminal.end() == Exit.INPUT


def test_an_unreadable_capture_takes_no_screen(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "text.pcap"
    path.write_text("just text\n")
    done = subprocess.run(
        [*KPROXY, "replay", str(path)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == Exit.INPUT
    assert "\x1b" not in done.stdout + done.stderr


def test_what_grows_is_followed_until_it_is_left(tmp_path: Path, environment: dict[str, str]) -> None:
    growing, data = tmp_path / "growing.pcap", CAPTURE.read_bytes()
    growing.write_bytes(data[:60_001])
    with subprocess.Popen(
        [*KPROXY, "replay", str(growing), "--follow", "--headless"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        with growing.open("ab") as file:
            file.write(data[60_001:])
        while len(lines) < 150:
            lines.append(process.stdout.readline())
            assert lines[-1], "it has ended"
        process.send_signal(signal.SIGINT)
        lines += process.stdout.readlines()
        assert process.wait() == 0, process.stderr and process.stderr.read()
    assert len(lines) == 154
    assert all(LINE.match(line) for line in lines)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_what_grows_is_followed_on_a_terminal(tmp_path: Path, environment: dict[str, str]) -> None:
    growing, data = tmp_path / "growing.pcap", CAPTURE.read_bytes()
    growing.write_bytes(data[:60_001])
    terminal = Terminal("replay", str(growing), "--follow", environment=environment)
    terminal.wait_for("LeaderAndIsr")
    with growing.open("ab") as file:
        file.write(data[60_001:])
    terminal.wait_for("154 ex")
    terminal.press("Q")
    assert terminal.end() == 0
    assert not list((tmp_path / "cache" / "kproxy").glob("indexes/*")), "it may have grown since"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_capture_that_was_indexed_is_not_read_again(tmp_path: Path, environment: dict[str, str]) -> None:
    packed = tmp_path / "capture.pcap.gz"
    packed.write_bytes(gzip.compress(CAPTURE.read_bytes()))
    kept = tmp_path / "cache" / "kproxy" / "indexes"
    rows = set()
    for _ in range(2):
        terminal = Terminal("replay", str(packed), environment=environment)
        terminal.wait_for("154 ex")
        deadline = time.monotonic() + 60
        while not list(kept.glob("[!.]*")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        (entry,) = kept.glob("[!.]*")
        rows.add((entry / "rows").stat().st_ino)
        assert entry.stat().st_mtime > 1_000_000, "it is used"
        terminal.press("\r}}")
        terminal.wait_for("MetadataResponse")
        terminal.press("Q")
        assert terminal.end() == 0
        os.utime(entry, (1_000_000, 1_000_000))
    assert len(rows) == 1
    spool = tmp_path / "cache" / "kproxy" / "spool"
    assert sorted(path.name for path in spool.rglob("*") if path.is_file()) == ["capture", "seals.json"]


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "cache").write_bytes(b"a file where the directory should be")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    terminal = Terminal("replay", str(CAPTURE), environment=environment | {"TMPDIR": str(temporary)})
    terminal.wait_for("154 ex")
    terminal.press("Q")
    terminal.wait_for("the index is not kept for the next reading")
    assert terminal.end() == 0
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("command", ["replay", "export", "stats", "topics"])
def test_a_capture_that_may_not_be_read(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(CAPTURE.read_bytes())
    opened = os.open

    def refuse(name: object, *arguments: object, **more: object) -> int:
        if str(name) == str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(name, *arguments, **more)  # type: ignore[arg-type]  # as given

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "access", lambda name, mode, **_: str(name) != str(path) or mode == os.F_OK)
    result = CliRunner().invoke(main, [command, str(path)])
    assert (result.exit_code, result.stderr) == (Exit.INPUT, f"kproxy: {path}: Permission denied\n")
