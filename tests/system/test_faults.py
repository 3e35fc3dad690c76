"""What both ends see of a fault through kproxy is what they see of it through socat.

socat passes a reset on as an orderly end (`faults.SOCAT_ENDS_GENTLY`); there a connection without anything between is
the judge of how it ends, and socat of every byte before.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psutil
import pytest

from kproxy.runs.launcher import Indexer, RelayProcess, wait_until
from kproxy.runs.settings import Settings, upstream
from tests.kproxy.support import places
from tests.kproxy.test_faults import recorded
from tests.support import faults
from tests.support.ends import SECONDS, Between, both_see, direct, joined, through_kproxy, through_socat
from tests.support.require import require

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

CONNECTIONS = 5000


@pytest.fixture(autouse=True)
def _places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require("socat", "tshark")
    places(monkeypatch, tmp_path)


def frames_in_tshark(recording: Path) -> int:
    """How many packets tshark reads; it must not complain of the file."""
    run = subprocess.run(["tshark", "-r", recording, "-T", "fields", "-e", "frame.number"],
                         capture_output=True, text=True, timeout=SECONDS * 4, check=False)  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "cut short" not in run.stderr
    return len(run.stdout.split())


@pytest.mark.parametrize("name", [*faults.QUICK, *faults.LONG])
def test_a_fault_looks_as_it_does_through_socat(name: str, tmp_path: Path) -> None:
    script = {**faults.QUICK, **faults.LONG}[name]
    recording = tmp_path / "r.pcapng"
    with ThreadPoolExecutor() as ways:  # at the same time, because some faults last a minute
        proxied = ways.submit(both_see, script, partial(through_kproxy, record_to=recording))
        theirs = both_see(script, through_socat)
        ours = proxied.result()
    if name in faults.SOCAT_ENDS_GENTLY:
        assert ours == both_see(script, direct)
        theirs = {end: [("rst",) if one == ("fin",) else one for one in seen] for end, seen in theirs.items()}
    assert ours == theirs
    recorded(recording)
    assert frames_in_tshark(recording) > 3


def killed(between: Between) -> dict[str, object]:
    with joined(between) as (client, server, way):
        client.send(faults.ASKED)
        server.read(len(faults.ASKED)).send(faults.ANSWER)
        client.read(len(faults.ANSWER))
        way.kill()
        client.read_to_the_end()
        server.read_to_the_end()
        return {"client": client.seen, "server": server.seen}


def test_a_kill_looks_as_it_does_through_socat() -> None:
    assert killed(through_kproxy) == killed(through_socat)


def test_a_relay_that_is_killed_leaves_a_recording_up_to_then(tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    size = 4 << 20
    with joined(partial(through_kproxy, record_to=recording)) as (client, server, way):
        client.send(faults.FETCH)
        server.read(len(faults.FETCH)).send_meanwhile(faults.fetched(size))
        client.read(len(faults.fetched(size)))
        server.sent()
        assert wait_until(lambda: recording.stat().st_size > size, SECONDS)
        client.send(faults.FETCH)
        way.kill()
    assert recorded(recording)[0].status == "ok"
    assert frames_in_tshark(recording) > size // 65536


def exchanged(between: Between, count: int) -> list[int]:
    """Opens connections one after the other, an exchange on each; how many bytes each end saw."""
    seen = [0, 0]

    def serve(listener: socket.socket) -> None:
        for _ in range(count):
            side, _ = listener.accept()
            with side:
                side.settimeout(SECONDS)
                while got := side.recv(1 << 16):
                    seen[1] += len(got)
                side.sendall(faults.ANSWER)

    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        listener.settimeout(SECONDS)
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        with between(listener.getsockname()[1]) as way:
            for _ in range(count):
                with socket.create_connection(("127.0.0.1", way.port), SECONDS) as client:
                    client.sendall(faults.ASKED)
                    client.shutdown(socket.SHUT_WR)
                    while got := client.recv(1 << 16):
                        seen[0] += len(got)
            server.join(SECONDS)
            assert wait_until(lambda: open_sockets(way.pids()[0]) <= 3, SECONDS), "connections are left open"
    return seen


def open_sockets(pid: int) -> int:
    return len(psutil.Process(pid).net_connections("tcp"))


def test_thousands_of_connections_come_and_go(tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    ours = exchanged(partial(through_kproxy, record_to=recording), CONNECTIONS)
    assert ours == exchanged(through_socat, CONNECTIONS)
    assert ours == [CONNECTIONS * len(faults.ANSWER), CONNECTIONS * len(faults.ASKED)]
    found = recorded(recording)
    assert len(found) == CONNECTIONS
    assert {exchange.status for exchange in found} == {"ok"}
    assert frames_in_tshark(recording) >= CONNECTIONS * 7


def test_an_indexer_that_is_killed_touches_no_traffic_and_is_started_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(SECONDS)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with RelayProcess(Settings(upstream=upstream(address), listen_port=0, probe=False)) as relay:
            assert relay.recording is not None
            indexer = Indexer(relay.recording, relay.index_dir, ("--follow",))
            with socket.create_connection(("127.0.0.1", int(relay.bootstrap.rpartition(":")[2])), SECONDS) as client:
                side, _ = listener.accept()
                with side:
                    for _ in range(2):
                        client.sendall(faults.ASKED)
                        assert side.recv(1 << 16) == faults.ASKED
                        side.sendall(faults.ANSWER)
                        assert client.recv(1 << 16) == faults.ANSWER
                        pid = indexer.pid
                        assert pid is not None
                        os.kill(pid, signal.SIGKILL)
                        assert wait_until(partial(another, indexer, pid), SECONDS)
            indexer.stop()


def another(indexer: Indexer, than: int) -> bool:
    return indexer.pid not in {None, than}
