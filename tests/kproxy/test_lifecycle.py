"""Runs in the background, behind closed terminals and dead viewers: how they are found, watched and ended."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.cli.exits import Exit
from kproxy.runs.launcher import wait_until
from tests.kproxy.core.frames import request, response
from tests.kproxy.support import FakeBroker, connect, exactly
from tests.kproxy.test_run import COMMAND, free_port
from tests.support.homes import homes
from tests.support.patience import SECONDS
from tests.support.screens import Painted

pytestmark = pytest.mark.timeout(120)

KPROXY = COMMAND[:-1]
ASKED, ANSWER = request(12, 0, 1), response(12, 0, 1, {})


class Home:
    """Places of the test's own, so that no run is seen but its; their path is short enough for a socket."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker = FakeBroker()
        self.port = free_port()
        self.environment = {
            **os.environ,
            **homes(directory),
            "TMPDIR": str(directory),
            "TERM": "xterm",
        }
        self.upstream = ["--upstream", self.broker.address, "--listen", str(self.port)]

    def kproxy(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*KPROXY, *arguments], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=SECONDS, check=False,
        )  # fmt: skip

    def runs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.kproxy("ps", "--json").stdout.splitlines()]

    def exchange(self) -> None:
        """One exchange through the relay; its own question about the upstream is left alone."""
        with connect(f"127.0.0.1:{self.port}") as client:
            client.sendall(ASKED)
            while True:
                with self.broker.accept() as side:
                    if exactly(side, len(ASKED)) == ASKED:
                        side.sendall(ANSWER)
                        assert exactly(client, len(ANSWER)) == ANSWER
                        return

    def listens(self) -> bool:
        with contextlib.suppress(OSError):
            connect(f"127.0.0.1:{self.port}").close()
            return True
        return False

    def left(self) -> list[Path]:
        return [path for path in self.directory.rglob("kproxy-*") if path.is_dir()]


@pytest.fixture
def home() -> Iterator[Home]:
    with tempfile.TemporaryDirectory(prefix="kp") as directory:
        made = Home(Path(directory))
        try:
            yield made
        finally:
            for run in made.runs():
                os.kill(run["pid"], signal.SIGKILL)
            made.broker.close()


class Terminal:
    """A `kproxy run` whose terminal is ours; what it writes is collected by `wait_for`."""

    def __init__(self, home: Home, *arguments: str, ignores_hangup: bool = False) -> None:
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGHUP, signal.SIG_IGN if ignores_hangup else signal.SIG_DFL)
            os.execve(KPROXY[0], [*KPROXY, "run", *home.upstream, *arguments], home.environment)
        self.seen = b""
        os.set_blocking(self._master, False)

    def wait_for(self, text: str) -> None:
        assert wait_until(lambda: text in self._read(), SECONDS), self.seen.decode("utf-8", "replace")

    def _read(self) -> str:
        with contextlib.suppress(OSError):
            while piece := os.read(self._master, 1 << 16):
                self.seen += piece
        return self.seen.decode("utf-8", "replace")

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def hang_up(self) -> None:
        os.close(self._master)

    def exit_code(self) -> int:
        """Waits for its end; minus the signal that killed it."""
        deadline = time.monotonic() + SECONDS
        while (ended := os.waitpid(self.pid, os.WNOHANG))[0] == 0:
            assert time.monotonic() < deadline, "it does not end"
            with contextlib.suppress(OSError):
                self._read()
            time.sleep(0.02)
        return os.waitstatus_to_exitcode(ended[1])


def test_a_run_in_the_background_is_found_watched_and_ended(home: Home) -> None:
    started = home.kproxy("run", *home.upstream, "--detach", "--name", "orders")
    assert started.returncode == 0, started.stderr
    assert f"bootstrap.servers=127.0.0.1:{home.port}" in started.stderr
    assert "kproxy attach orders" in started.stderr
    home.exchange()
    (run,) = home.runs()
    assert (run["name"], run["listen"], run["upstream"]) == (
        "orders", f"127.0.0.1:{home.port}", [home.broker.address],
    )  # fmt: skip
    assert run["answers"]
    assert run["connectionsTotal"] == 1
    (head, line) = home.kproxy("ps").stdout.splitlines()
    assert head.split()[:5] == ["PID", "NAME", "SINCE", "LISTEN", "UPSTREAM"]
    assert line.split()[:2] == [str(run["pid"]), "orders"]

    watched = subprocess.Popen(
        [*KPROXY, "attach", "orders", "--headless"], env=home.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watched.stdout is not None
    assert "Heartbeat v0" in watched.stdout.readline()
    watched.send_signal(signal.SIGINT)
    watched.communicate(timeout=SECONDS)
    assert watched.returncode == 0
    home.exchange()

    assert home.kproxy("stop", "orders").returncode == 0
    assert not home.listens()
    assert home.runs() == []
    assert home.left() == []


@pytest.mark.parametrize("kept", [False, True])
def test_who_watches_a_run_is_told_that_it_has_ended(home: Home, *, kept: bool) -> None:
    options = ["-w", str(home.directory / "kept.pcapng")] if kept else []
    assert home.kproxy("run", *home.upstream, "--detach", *options).returncode == 0
    (run,) = home.runs()
    watching = subprocess.Popen(
        [*KPROXY, "attach", "--headless"], env=home.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    home.exchange()
    assert watching.stdout is not None
    assert "Heartbeat v0" in watching.stdout.readline()
    assert home.kproxy("stop").returncode == 0
    _, said = watching.communicate(timeout=SECONDS)
    assert (watching.returncode, said) == (0, f"process {run['pid']} has ended\n")


def test_it_must_be_clear_which_run_is_meant(home: Home) -> None:
    for command in ("stop", "attach"):
        none = home.kproxy(command)
        assert (none.returncode, none.stderr) == (2, "kproxy: nothing is running\n")
    assert home.kproxy("stop", "--all").returncode == 0
    assert home.kproxy("ps").stdout == ""
    home.kproxy("run", *home.upstream, "--detach", "--name", "one")
    taken = home.kproxy("run", *home.upstream, "--listen", str(free_port()), "--detach", "--name", "one")
    assert taken.returncode == 2
    assert "is taken by process" in taken.stderr
    home.kproxy("run", *home.upstream, "--listen", str(free_port()), "--detach", "--no-record", "--name", "two")
    assert len(home.runs()) == 2
    ambiguous = home.kproxy("stop")
    assert ambiguous.returncode == 2
    assert "one" in ambiguous.stderr
    assert home.kproxy("stop", "three").returncode == 2
    blind = home.kproxy("attach", "two")
    assert blind.returncode == 2
    assert "records nothing" in blind.stderr
    assert home.kproxy("stop", "--all").returncode == 0
    assert home.runs() == []


def test_a_run_that_does_not_answer_is_shown_and_not_waited_for(home: Home) -> None:
    home.kproxy("run", *home.upstream, "--detach", "--name", "mute")
    (run,) = home.runs()
    os.kill(run["pid"], signal.SIGKILL)
    assert wait_until(lambda: home.runs() == [], SECONDS)


@pytest.mark.parametrize("headless", [True, False], ids=["headless", "ui"])
@pytest.mark.parametrize("how", ["hangup", "kill"])
def test_traffic_goes_on_without_terminal_or_viewer(home: Home, how: str, *, headless: bool) -> None:
    terminal = Terminal(home, *(["--headless"] if headless else []))
    terminal.wait_for(f"{home.port}")
    assert wait_until(lambda: len(home.runs()) == 1, SECONDS)
    home.exchange()
    if how == "hangup":
        terminal.hang_up()
    else:
        os.kill(terminal.pid, signal.SIGKILL)
    # the terminal UI, if it is there by then, puts its files away first
    ends = {-signal.SIGHUP, Exit.PIPE} if how == "hangup" and not headless else {-signal.SIGHUP}
    assert terminal.exit_code() in (ends if how == "hangup" else {-signal.SIGKILL})
    home.exchange()
    (run,) = home.runs()
    assert run["connectionsTotal"] == 2
    assert home.kproxy("stop").returncode == 0
    assert home.left() == [] or headless is False


@pytest.mark.parametrize("headless", [True, False], ids=["headless", "ui"])
def test_a_terminal_that_fails_is_one_that_hung_up(home: Home, *, headless: bool) -> None:
    terminal = Terminal(home, *(["--headless"] if headless else []), ignores_hangup=True)
    terminal.wait_for("bootstrap.servers" if headless else " LIVE ")
    home.exchange()
    terminal.hang_up()
    home.exchange()
    terminal.exit_code()
    home.exchange()
    assert home.kproxy("stop").returncode == 0


def test_traffic_goes_on_where_the_terminal_goes_without_a_signal(home: Home) -> None:
    with Painted([*KPROXY, "run", *home.upstream], home.environment) as terminal:
        terminal.wait_for(" LIVE ")
        home.exchange()
        terminal.hang_up()
        assert terminal.end() == Exit.PIPE
    home.exchange()
    assert home.kproxy("stop").returncode == 0


@pytest.mark.parametrize("how", ["hangup", "kill"])
def test_a_run_may_end_with_its_terminal(home: Home, how: str) -> None:
    terminal = Terminal(home, "--headless", "--on-hangup", "exit")
    terminal.wait_for("bootstrap.servers")
    home.exchange()
    if how == "hangup":
        terminal.hang_up()
    else:
        os.kill(terminal.pid, signal.SIGKILL)
    terminal.exit_code()
    assert wait_until(lambda: not home.listens(), SECONDS)
    assert wait_until(lambda: home.runs() == [], SECONDS)


@pytest.mark.parametrize("record", [[], ["--no-record"], ["--no-lines"]], ids=["lines", "no-record", "no-lines"])
def test_ctrl_c_ends_it_only_when_pressed_twice(home: Home, record: list[str]) -> None:
    terminal = Terminal(home, "--headless", *record)
    terminal.wait_for("bootstrap.servers")
    home.exchange()
    terminal.press(b"\x03")
    terminal.wait_for("ctrl+c again")
    home.exchange()
    terminal.press(b"\x03\x03")
    assert terminal.exit_code() == 0
    assert not home.listens()
    assert home.left() == []


def test_a_run_that_somebody_else_ends_says_so(home: Home) -> None:
    run = subprocess.Popen(
        [*KPROXY, "run", *home.upstream, "--headless"], env=home.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert wait_until(lambda: len(home.runs()) == 1, SECONDS)
    assert home.kproxy("stop").returncode == 0
    _, said = run.communicate(timeout=SECONDS)
    assert run.returncode == 0
    assert "was stopped" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_interface_says_that_the_relay_has_ended(home: Home, number: signal.Signals) -> None:
    terminal = Terminal(home)
    terminal.wait_for("kproxy LIVE")
    (run,) = home.runs()
    os.kill(run["pid"], number)
    terminal.wait_for("kproxy ENDED")
    terminal.wait_for("the run has ended")
    terminal.press(b"q")  # without a question: there is nothing to stop or to leave running
    assert terminal.exit_code() == (0 if number is signal.SIGTERM else Exit.BUG)
    terminal.wait_for("was stopped" if number is signal.SIGTERM else "has ended")
    assert home.left() == []


def test_without_lines_only_warnings_are_printed(home: Home) -> None:
    run = subprocess.Popen(
        [*KPROXY, "run", *home.upstream, "--no-lines"], env=home.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert wait_until(home.listens, SECONDS)
    home.exchange()
    run.send_signal(signal.SIGTERM)
    out, _ = run.communicate(timeout=SECONDS)
    assert (run.returncode, out) == (0, "")


def test_what_excludes_each_other_is_refused(home: Home) -> None:
    for arguments in (["--detach", "--on-hangup", "exit"], ["--name", "7"], ["--max-connections", "0"]):
        assert home.kproxy("run", *home.upstream, *arguments).returncode == 2, arguments
