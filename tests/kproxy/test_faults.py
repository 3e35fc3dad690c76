"""What both ends see of a fault through kproxy is what they see of it without anything between."""

from __future__ import annotations

import os
import resource
import signal
from functools import partial
from pathlib import Path

import pytest

from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.runs.launcher import wait_until
from tests.support import faults
from tests.support.ends import SECONDS, both_see, direct, joined, through_kproxy

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_places")]


@pytest.mark.parametrize("name", faults.QUICK)
def test_a_fault_looks_as_it_does_without_a_proxy(name: str) -> None:
    script = faults.QUICK[name]
    assert both_see(script, through_kproxy) == both_see(script, direct)


def test_a_stall_delays_and_loses_nothing() -> None:
    script = partial(faults.stall, seconds=1.0)
    assert both_see(script, through_kproxy) == both_see(script, direct)


def recorded(recording: Path) -> list[Exchange]:
    """Exchanges of a recording that must be readable to its end."""
    reader = read(recording)
    try:
        found = [item for item in reader if isinstance(item, Exchange)]
        assert reader.error is None
    finally:
        reader.close()
    return found


def test_what_was_recorded_before_the_relay_is_killed_can_be_read(tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    with joined(partial(through_kproxy, record_to=recording)) as (client, server, way):
        for _ in range(3):
            client.send(faults.ASKED)
            server.read(len(faults.ASKED)).send(faults.ANSWER)
            client.read(len(faults.ANSWER))
        assert wait_until(lambda: len(recorded(recording)) == 3, SECONDS)
        way.kill()
        client.read_to_the_end()
        server.read_to_the_end()
    assert [exchange.status for exchange in recorded(recording)] == ["ok"] * 3


def test_traffic_survives_a_disk_that_is_full(tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    size = 64 << 10
    with joined(partial(through_kproxy, record_to=recording)) as (client, server, way):
        (pid,) = way.pids()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, size))
        count = 2 * size // len(faults.ASKED)
        for asked, answer in [(faults.ASKED, faults.ANSWER)] * 2:
            client.send_meanwhile(asked * count)
            server.read(len(asked) * count).send_meanwhile(answer * count)
            client.read(len(answer) * count)
    assert recording.stat().st_size <= size
    recorded(recording)


def test_a_slow_reader_costs_the_relay_no_more_than_its_share() -> None:
    with joined(through_kproxy) as (client, server, way):
        (pid,) = way.pids()
        before = resident(pid)
        answer = faults.fetched(96 << 20)
        client.send(faults.FETCH)
        server.read(len(faults.FETCH)).send_meanwhile(answer)
        assert not wait_until(lambda: resident(pid) - before > 48 << 20, 2.0)
        client.read(len(answer))
        server.sent()


def resident(pid: int) -> int:
    """Bytes of anonymous memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no RssAnon")


def test_the_relay_ignores_a_hangup_and_has_its_own_session() -> None:
    with joined(through_kproxy) as (client, server, way):
        (pid,) = way.pids()
        assert os.getsid(pid) == pid
        os.kill(pid, signal.SIGHUP)
        client.send(faults.ASKED)
        server.read(len(faults.ASKED)).send(faults.ANSWER)
        client.read(len(faults.ANSWER))
