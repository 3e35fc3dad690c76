"""What a relay records when it is not to record everything, or into more than one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.reader import read
from kproxy.captures.ring import number_of
from kproxy.decoders.exchange import Exchange, Health, Status
from kproxy.decoders.writer import write
from kproxy.runs.launcher import StartError, wait_until
from tests.kproxy.core.frames import DEFINITIONS, request, response
from tests.kproxy.support import FakeBroker, connect, exactly, relay
from tests.support.patience import SECONDS

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_places")]

FETCH, HEARTBEAT, SYNC_GROUP = 1, 12, 14


def talk(broker: FakeBroker, bootstrap: str, requests: list[bytes], answers: list[bytes]) -> None:
    """One connection; every byte arrives, whatever becomes of the recording."""
    with connect(bootstrap) as client:
        client.sendall(requests[0])
        with broker.accept() as upstream_side:
            for number, (asked, answered) in enumerate(zip(requests, answers, strict=True)):
                if number:
                    client.sendall(asked)
                assert exactly(upstream_side, len(asked)) == asked
                upstream_side.sendall(answered)
                assert exactly(client, len(answered)) == answered


def syncs(count: int, size: int) -> tuple[list[bytes], list[bytes]]:
    """Requests (SyncGroup) that decode, so that a reading which begins within one finds the next, and their answers."""
    message = DEFINITIONS.request(SYNC_GROUP, 0)
    assert message is not None
    values = {"groupId": "g", "generationId": 1, "memberId": "m", "assignments": []}
    values["assignments"] = [{"memberId": "m", "assignment": bytes(range(256)) * (size // 256)}]
    body = write(message, 0, values)
    answer = {"errorCode": 0, "assignment": b""}
    numbers = range(count)
    return [request(SYNC_GROUP, 0, n, body) for n in numbers], [response(SYNC_GROUP, 0, n, answer) for n in numbers]


def exchanges(recording: Path) -> tuple[list[Exchange], Health]:
    reader = read(recording)
    try:
        items = list(reader)
    finally:
        reader.close()
    assert isinstance(items[-1], Health)
    return [item for item in items if isinstance(item, Exchange)], items[-1]


def test_a_ring_of_files(broker: FakeBroker, tmp_path: Path) -> None:
    directory = tmp_path / "ring"
    with relay(broker.address, record_to=directory, ring_files=3, ring_bytes=1 << 20) as process:
        assert process.recording == directory
        for _ in range(8):
            talk(broker, process.bootstrap, *syncs(8, 128 << 10))
        process.stop()

    def compressed() -> bool:
        names = [path.name for path in directory.iterdir() if number_of(path.name)]
        return len(names) == 3 and all(name.endswith(".pcapng.zst") for name in names)

    assert wait_until(compressed, SECONDS)
    found, health = exchanges(directory)
    # Exchanges of a connection whose beginning the ring deleted may come after those of a later connection.
    latest = max(one.connection.first_time for one in found)
    assert [one.correlation_id for one in found if one.connection.first_time == latest] == list(range(8))
    assert health.recorder_dropped == 0
    assert (directory.stat().st_mode & 0o777) == 0o700
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}


def test_a_ring_that_is_not_compressed(broker: FakeBroker, tmp_path: Path) -> None:
    with relay(
        broker.address, record_to=tmp_path / "ring", ring_files=2, ring_bytes=1 << 20, ring_zstd=False
    ) as process:
        talk(broker, process.bootstrap, *syncs(16, 128 << 10))
        process.stop()
    assert not list((tmp_path / "ring").glob("*.zst"))
    assert len(exchanges(tmp_path / "ring")[0]) >= 8


def test_a_second_relay_keeps_off_the_ring_of_another(broker: FakeBroker, tmp_path: Path) -> None:
    ring: dict[str, Any] = {"record_to": tmp_path / "ring", "ring_files": 2, "ring_bytes": 1 << 20}
    with (
        relay(broker.address, **ring),
        pytest.raises(StartError, match=r"cannot record to .*ring: another kproxy records there"),
        relay(broker.address, **ring),
    ):
        pass


def test_only_the_beginning_of_frames(broker: FakeBroker, tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    with relay(broker.address, record_to=recording, snap=64) as process:
        talk(broker, process.bootstrap, *syncs(10, 128 << 10))
        process.stop()
    found, health = exchanges(recording)
    assert [one.correlation_id for one in found] == list(range(10))
    assert {one.status for one in found} == {Status.CUT}
    assert {one.request.size for one in found if one.request} == {len(syncs(1, 128 << 10)[0][0]) - 4}
    assert (health.gaps, health.lost) == (0, 0)
    assert recording.stat().st_size < 32 << 10
    assert b"(--snap 64)" in recording.read_bytes()


def test_only_some_exchanges(broker: FakeBroker, tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    requests = [request(key, 3, n) for n, key in enumerate((FETCH, HEARTBEAT, FETCH))]
    answers = [(8).to_bytes(4, "big") + n.to_bytes(4, "big") + bytes(4) for n in range(3)]
    with relay(broker.address, record_to=recording, record_filter="api != Fetch") as process:
        talk(broker, process.bootstrap, requests, answers)
        assert process.command("status")["recorder"]["excluded"] == 2
        process.stop()
    found, health = exchanges(recording)
    assert [one.correlation_id for one in found] == [1]
    assert (health.gaps, health.lost) == (0, 0)
    assert b"2 exchanges left out" in recording.read_bytes()


def test_the_recording_says_how_client_and_broker_came_together(broker: FakeBroker, tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    with relay(broker.address, record_to=recording) as process:
        with connect(process.bootstrap) as client:
            client.sendall(request(HEARTBEAT, 0, 1))
            with broker.accept() as upstream_side:
                host, port = upstream_side.getpeername()
                there = "{}:{}".format(*client.getsockname())
                exactly(upstream_side, 4)
        process.stop()
    held = recording.read_bytes()
    assert f"client {there} connected to kproxy at {process.bootstrap}, the bootstrap listener".encode() in held
    assert f"kproxy connected to broker {broker.address} from {host}:{port}".encode() in held


@pytest.mark.parametrize(("name", "why"), [("no/where", "No such file or directory"), ("pipe", "it is a pipe")])
def test_a_recording_that_cannot_begin_says_why(tmp_path: Path, name: str, why: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / name
    with pytest.raises(StartError, match=f"cannot record to {path}: {why}"), relay("127.0.0.1:1", record_to=path):
        pass


def test_a_removed_recording_stops_and_traffic_goes_on(broker: FakeBroker, tmp_path: Path) -> None:
    recording = tmp_path / "r.pcapng"
    said: list[str] = []
    with relay(broker.address, record_to=recording) as process:
        process.on_event(lambda event: said.append(event.get("message", "")))
        recording.unlink()
        talk(broker, process.bootstrap, *syncs(3, 256))
        assert wait_until(lambda: any("the file has been removed; traffic goes on" in one for one in said), SECONDS)
        talk(broker, process.bootstrap, *syncs(3, 256))
        assert process.command("status")["recorder"]["failed"] == "the file has been removed"
