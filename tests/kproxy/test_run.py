"""`kproxy run` as a user starts it, without a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.decoders.writer import write
from kproxy.runs.launcher import wait_until
from tests.kproxy.core.frames import DEFINITIONS, request, response
from tests.kproxy.support import FakeBroker, connect, exactly
from tests.support.brokers import free_ports
from tests.support.homes import homes
from tests.support.patience import SECONDS

pytestmark = pytest.mark.timeout(60)

COMMAND = [sys.executable, "-c", "from kproxy.cli.main import main; main()", "run"]


def free_port() -> int:
    (port,) = free_ports(1)
    return port


class Run:
    """A `kproxy run` in front of a broker of the test's; `end` interrupts it."""

    def __init__(self, directory: Path, *arguments: str, out: int = subprocess.PIPE) -> None:
        self.broker = FakeBroker()
        self.port = free_port()
        self.process = subprocess.Popen(
            [*COMMAND, "--upstream", self.broker.address, "--listen", str(self.port), *arguments],
            env={**os.environ, **homes(directory)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.first_line = self.process.stderr.readline()

    def exchange(self, api_key: int, version: int) -> None:
        """One request and its response."""
        message = DEFINITIONS.request(api_key, version)
        assert message is not None
        asked, answer = request(api_key, version, 1, write(message, version, {})), response(api_key, version, 1, {})
        with connect(f"127.0.0.1:{self.port}") as client:
            client.sendall(asked)
            with self.served(asked) as side:
                side.sendall(answer)
                assert exactly(client, len(answer)) == answer

    @contextlib.contextmanager
    def served(self, asked: bytes) -> Iterator[socket.socket]:
        """The connection on which `asked` comes; the relay's own question about the upstream is left alone."""
        while True:
            with self.broker.accept() as side:
                if exactly(side, len(asked)) == asked:
                    yield side
                    return

    def end(self, number: int = signal.SIGINT) -> tuple[str, str, int]:
        """(standard output, the rest of standard error, exit code)"""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=SECONDS)
        return out, err, self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGTERM)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self.broker.close()


@contextlib.contextmanager
def running(directory: Path, *arguments: str) -> Iterator[Run]:
    run = Run(directory, *arguments)
    try:
        yield run
    finally:
        run.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_headless_prints_one_line_an_exchange(tmp_path: Path, number: int) -> None:
    with running(tmp_path, "--headless", "-Y", "api == Heartbeat") as run:
        assert run.first_line == f"bootstrap.servers=127.0.0.1:{run.port}\n"
        run.exchange(12, 0)
        run.exchange(11, 0)
        out, err, code = run.end(number)
    (line,) = out.splitlines()
    assert err.count("first connection from 127.0.0.1:") == 1
    assert "Heartbeat v0" in line
    assert line.endswith("ok")
    assert code == 0


def test_json_is_exchanges_and_health(tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    with running(tmp_path, "--headless", "--json", "-w", str(recording)) as run:
        run.exchange(12, 0)
        out, _, code = run.end()
    exchange, health = map(json.loads, out.splitlines())
    assert (exchange["schema"], health["schema"]) == ("kproxy.exchange/1", "kproxy.health/1")
    assert (exchange["api"], exchange["status"], exchange["broker"]) == ("Heartbeat", "ok", run.broker.address)
    assert exchange["response"]["body"] == {"errorCode": 0}
    assert code == 0
    assert recording.exists()


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    with running(tmp_path, "--headless") as run:
        run.exchange(12, 0)
        run.end()
    assert [path for path in tmp_path.rglob("kproxy-*") if path.is_dir()] == []


def test_without_a_recording_it_only_forwards(tmp_path: Path) -> None:
    with running(tmp_path, "--no-record") as run:
        run.exchange(12, 0)
        out, _, code = run.end()
    assert (out, code) == ("", 0)


def test_a_closed_pipe_ends_it(tmp_path: Path) -> None:
    with running(tmp_path, "--headless") as run:
        assert run.process.stdout is not None
        run.process.stdout.close()
        run.exchange(12, 0)
        assert run.process.wait(SECONDS) == 141


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_full_disk_of_the_output_ends_nothing(tmp_path: Path, form: tuple[str, ...]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    run = Run(tmp_path, "--headless", *form, out=full)
    try:
        for _ in range(3):
            run.exchange(12, 0)
            time.sleep(0.3)  # each is printed before the next
        _, said, code = run.end()
    finally:
        os.close(full)
        run.close()
    assert code == 0
    assert said.count("No space left on device; lines are left out, traffic goes on") == 1


def test_a_full_disk_of_standard_error_ends_nothing(tmp_path: Path) -> None:
    port, broker = free_port(), FakeBroker()
    full = os.open("/dev/full", os.O_WRONLY)
    process = subprocess.Popen(
        [*COMMAND, "--upstream", broker.address, "--listen", str(port), "--headless"],
        env={**os.environ, **homes(tmp_path)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=full, text=True,
    )  # fmt: skip
    try:
        assert wait_until(lambda: connects(port), SECONDS)  # which has kproxy say something more
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        assert connects(port)
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)
        os.close(full)
        broker.close()


def connects(port: int) -> bool:
    with contextlib.suppress(OSError):
        connect(f"127.0.0.1:{port}").close()
        return True
    return False


def failing(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        env={**os.environ, **homes(directory)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_what_cannot_start_says_why_in_one_line(tmp_path: Path) -> None:
    broker = FakeBroker()
    os.mkfifo(tmp_path / "pipe")
    cases = [
        (["--upstream", "x", "--listen", str(broker.port)], 4, "cannot listen on 127.0.0.1:"),
        (["--upstream", "x", "-w", str(tmp_path / "no" / "where")], 2, "cannot record to"),
        (["--upstream", "x", "-w", str(tmp_path / "pipe"), "--force"], 2, "it is a pipe or a device"),
        (["--upstream", "x", "-w", "-"], 2, "cannot go to standard output"),
        (["--upstream", "x:y"], 2, "no port"),
        (["--upstream", "x..y"], 2, "not a host name"),
        (["--upstream", "x", "--advertise", "x:99999"], 2, "--advertise"),
        (["--upstream", "x", "--advertise", "{brokr}"], 2, "--advertise"),
        (["--upstream", "x", "--no-record", "-w", "y"], 2, "--no-record excludes -w"),
        (["--upstream", "x", "--ring", "10x100MB"], 2, "--ring needs -w DIR"),
        (["--upstream", "x", "-w", "y", "--ring", "10"], 2, "not a ring: '10'"),
        (["--upstream", "x", "-w", "y", "--ring", "1x1G"], 2, "2 to 100000 files"),
        (["--upstream", "x", "-w", "y", "--ring", "2x1k"], 2, "1M to 16G"),
        (["--upstream", "x", "--snap", "10"], 2, "--snap"),
        (["--upstream", "x", "--record", "api = Fetch"], 2, "--record"),
        (["--upstream", "x", "--record", "api == Fetch and error"], 2, "error (any error code of the response"),
        (["--upstream", f"127.0.0.1:{free_port()}", "--check"], 4, "refused the connection"),
    ]
    for arguments, code, words in cases:
        failed = failing(tmp_path, *arguments)
        assert failed.returncode == code, failed.stderr
        assert words in failed.stderr
        assert len(failed.stderr.splitlines()) == 1
        assert failed.stdout == ""
    broker.close()


@pytest.mark.parametrize("option", ["fault", "intercept"])
def test_a_variable_holds_one_rule_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    end = " => delay 1s" if option == "fault" else ""
    monkeypatch.setenv(f"KPROXY_RUN_{option.upper()}", f"api == Fetch{end}\n\napi == Nope{end}\n")
    failed = failing(tmp_path, "--upstream", "x")
    assert failed.returncode == 2
    assert failed.stderr.startswith("kproxy: unknown api 'Nope'")


def test_a_filter_that_cannot_be_read_is_marked_where(tmp_path: Path) -> None:
    failed = failing(tmp_path, "--upstream", "x", "-Y", "api =")
    assert failed.returncode == 2
    assert "--filter" in failed.stderr.splitlines()[0]
    assert failed.stderr.splitlines()[1:3] == ["  api =", "      ^"]
