"""`kproxy sniff` on the loopback device, beside tcpdump."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from tests.support.proxy import KPROXY, environment, export, kproxy
from tests.support.require import require, unavailable

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
WITHOUT_PRIVILEGE = ("setpriv", "--bounding-set", "-net_admin,-net_raw", "--inh-caps", "-net_admin,-net_raw")


@pytest.fixture(autouse=True)
def _root() -> None:
    require("tcpdump", "setpriv")
    if os.geteuid():
        unavailable("listening on a device needs root")


def eventually(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        time.sleep(0.05)


@contextlib.contextmanager
def listening(directory: Path, *command: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that has said that it listens; what it says is in `said`, what it prints in `out`."""
    directory.mkdir(exist_ok=True)
    said = directory / "said"
    with said.open("wb") as err, (directory / "out").open("wb") as out:
        process = subprocess.Popen(
            command, env=environment(directory), stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
    try:
        eventually(lambda: "listening on" in said.read_text() or process.poll() is not None, "it listens")
        assert process.poll() is None, said.read_text()
        yield process
    finally:
        for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
            child.kill()
        process.kill()
        process.wait()


@contextlib.contextmanager
def workload() -> Iterator[tuple[list[str], Callable[[], None]]]:
    """librdkafka's mock cluster: the ports of its brokers, and what has a client produce and consume."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.system.clients.mocked"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        reading, writing = program.stdout, program.stdin
        assert reading is not None
        assert writing is not None

        def work() -> None:
            writing.write("\n")
            writing.flush()
            assert reading.readline() == "done\n"
            assert program.wait(SECONDS) == 0

        try:
            yield reading.readline().split(), work
        finally:
            program.kill()


def end(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGINT) -> int:
    process.send_signal(number)
    return process.wait(SECONDS)


def since(lines: list[dict[str, Any]], moment: float) -> list[dict[str, Any]]:
    """Exchanges of connections that were opened from this moment on, without numbers and times.

    The kernel takes the time for each of those who listen.
    """
    first = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1e9):09d}Z"
    earlier = {line["connection"] for line in lines if "request" in line and line["request"]["timestamp"] < first}
    found = []
    for line in lines:
        if "request" in line and line["connection"] not in earlier:
            for name in ("exchange", "connection", "latency_ms"):
                line.pop(name, None)
            for name in ("request", "response"):
                if line[name] is not None:
                    del line[name]["timestamp"]
            found.append(line)
    return sorted(found, key=lambda line: (line["client"], line["correlation_id"]))


@pytest.mark.parametrize("device", ["lo", "any"])
def test_it_sees_what_tcpdump_sees(tmp_path: Path, device: str) -> None:
    recording, capture = tmp_path / "w.pcapng", tmp_path / "capture.pcap"
    with workload() as (ports, work):
        bpf = " or ".join(f"tcp port {port}" for port in ports)
        dump = ("tcpdump", "--immediate-mode", "-U", "-B", "16384", "-i", "lo", "-w", capture, bpf)
        sniff = (KPROXY, "sniff", device, "--port", ",".join(ports), "--headless", "-w", recording)
        with listening(tmp_path / "t", *dump) as tcpdump, listening(tmp_path / "k", *sniff) as sniffer:
            moment = time.time()
            work()
            assert end(sniffer) == 0
            end(tcpdump)
    mine = since(export(recording, tmp_path / "k"), moment)
    theirs = since(export(capture, tmp_path / "t"), moment)
    assert mine == theirs
    assert {"Produce", "Fetch", "JoinGroup"} <= {line["api"] for line in mine}
    printed = (tmp_path / "k" / "out").read_text().splitlines()
    assert len(printed) >= len(mine)
    assert any("JoinGroup" in line for line in printed)


def test_a_filter_keeps_everything_else_out(tmp_path: Path) -> None:
    recording = tmp_path / "w.pcapng"
    with workload() as (ports, work):
        sniff = (KPROXY, "sniff", "lo", "-f", f"tcp port {ports[0]}", "--headless", "-w", recording)
        with listening(tmp_path, *sniff) as sniffer:
            work()
            assert end(sniffer, signal.SIGTERM) == 0
    lines = [line for line in export(recording, tmp_path) if "broker" in line]
    assert {line["broker"].rpartition(":")[2] for line in lines} == {ports[0]}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("no-such-device",), "no device 'no-such-device'; there are "),
        (("lo", "-f", "tcp prt 1"), "not a filter: 'tcp prt 1': "),
        (("lo", "-w", "/proc/w"), "cannot record to /proc/w: "),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    run = kproxy(tmp_path, "sniff", *arguments)
    assert run.returncode == 2, run.stderr
    assert says in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_without_the_privilege_it_says_how_to_get_it(tmp_path: Path) -> None:
    run = subprocess.run(
        [*WITHOUT_PRIVILEGE, KPROXY, "sniff", "lo"],
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert run.returncode == 5
    assert "no permission to listen on lo: run it with sudo, or" in run.stderr
    assert "setcap cap_net_raw=eip" in run.stderr


def test_a_device_that_goes_away_ends_it(tmp_path: Path) -> None:
    name = f"kp{os.getpid()}"
    require("ip")
    subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p"], check=True)
    try:
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
        with listening(tmp_path, KPROXY, "sniff", name, "--headless") as sniffer:
            subprocess.run(["ip", "link", "del", name], check=True)
            assert sniffer.wait(SECONDS) == 3
    finally:
        subprocess.run(["ip", "link", "del", name], check=False, stderr=subprocess.DEVNULL)
    assert f"nothing more is recorded: {name}: " in (tmp_path / "said").read_text()


def known(directory: Path, name: str) -> dict[str, Any]:
    """What `kproxy ps` says of the run of this name."""
    (found,) = (
        one for one in map(json.loads, kproxy(directory, "ps", "--json").stdout.splitlines()) if one["name"] == name
    )
    return cast("dict[str, Any]", found)


def test_it_goes_on_in_the_background_where_it_is_found_watched_and_ended(tmp_path: Path) -> None:
    recording = tmp_path / "w.pcapng"
    with workload() as (ports, work):
        options = ("--port", ",".join(ports), "-w", recording, "--detach", "--name", "night")
        started = kproxy(tmp_path, "sniff", "lo", *options)
        assert started.returncode == 0, started.stderr
        run = known(tmp_path, "night")
        sniffer = psutil.Process(run["pid"])
        try:
            assert (
                f"process {sniffer.pid} keeps running: kproxy attach night shows it, kproxy stop night ends it"
                in started.stderr
            )
            assert (run["listen"], run["upstream"], run["recording"]) == ("lo", [], str(recording))
            assert run["answers"]
            work()
            eventually(lambda: known(tmp_path, "night")["recordedBytes"] > 10_000, "packets are counted")
            with attached(tmp_path / "a", "night") as out:
                eventually(lambda: '"JoinGroup"' in out.read_text(), "it is shown from its start")
                taken = kproxy(tmp_path, "sniff", "lo", "--detach", "--name", "night")
                assert taken.returncode == 2
                assert f"is taken by process {sniffer.pid}" in taken.stderr
                stopped = kproxy(tmp_path, "stop", "night")
                assert (stopped.returncode, stopped.stderr) == (0, f"{sniffer.pid} night has ended\n")
            eventually(lambda: not sniffer.is_running(), "the sniffer ends")
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                sniffer.kill()
    assert {"Produce", "Fetch"} <= {line.get("api") for line in export(recording, tmp_path)}
    assert not [path for path in tmp_path.rglob("kproxy-*") if path.is_dir()]


@contextlib.contextmanager
def attached(directory: Path, name: str) -> Iterator[Path]:
    """A `kproxy attach`, which ends by itself when the run does; the file of what it prints."""
    directory.mkdir()
    out = directory / "out"
    with out.open("wb") as printed:
        process = subprocess.Popen(
            [KPROXY, "attach", name, "--headless", "--json"],
            env=environment(directory.parent),
            stdin=subprocess.DEVNULL,
            stdout=printed,
        )
    try:
        yield out
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()


def test_one_that_somebody_watches_ends_when_it_is_told_to(tmp_path: Path) -> None:
    with listening(tmp_path, KPROXY, "sniff", "lo", "--headless", "--name", "watched") as process:
        stopped = kproxy(tmp_path, "stop", "watched")
        assert stopped.returncode == 0, stopped.stderr
        assert process.wait(SECONDS) == 0, (tmp_path / "said").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_behind(tmp_path: Path, number: signal.Signals) -> None:
    with listening(tmp_path, KPROXY, "sniff", "lo", "--headless", "--scratch", "16M") as process:
        (sniffer,) = psutil.Process(process.pid).children()
        (ring,) = {Path(one.path).parent for one in sniffer.open_files() if one.path.endswith(".pcapng")}
        end(process, number)
        eventually(lambda: not psutil.pid_exists(sniffer.pid), "the sniffer ends")
    assert not ring.exists()
    assert not [path for path in tmp_path.rglob("kproxy-*") if path.is_dir()]
