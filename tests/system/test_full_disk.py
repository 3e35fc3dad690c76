"""A recording on a disk that fills up: a small file system in memory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange, Health
from kproxy.runs.launcher import wait_until
from tests.kproxy.support import FakeBroker, places, relay
from tests.kproxy.test_relay_recording import syncs, talk
from tests.support.patience import SECONDS
from tests.support.proxy import KPROXY
from tests.system.test_sniff import end, eventually, listening

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="mounting needs root"),
]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """4 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "kproxy-test", place], check=False)
    if mounted.returncode:
        pytest.skip("no tmpfs can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.parametrize("ring", [False, True])
def test_a_full_disk_stops_the_recording_and_not_the_traffic(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, small_disk: Path, ring: bool
) -> None:
    places(monkeypatch, tmp_path)
    broker = FakeBroker()
    said: list[str] = []
    recording = small_disk / ("ring" if ring else "r.pcapng")
    settings: dict[str, Any] = {"ring_files": 10, "ring_bytes": 1 << 20, "ring_zstd": False} if ring else {}
    with relay(broker.address, record_to=recording, **settings) as process:
        process.on_event(lambda event: said.append(event.get("message", "")))
        talk(broker, process.bootstrap, *syncs(64, 128 << 10))
        assert wait_until(lambda: any("No space left on device; traffic goes on" in one for one in said), SECONDS)
        talk(broker, process.bootstrap, *syncs(64, 128 << 10))
        status = process.command("status")["recorder"]
        assert status["failed"] == "No space left on device"
        assert status["dropped"] > 64
        process.stop()
    reader = read(recording)
    items = list(reader)
    reader.close()
    found = [item for item in items if isinstance(item, Exchange)]
    assert 20 < len(found) < 64
    assert all(not one.request.missing for one in found[:-1] if one.request)
    assert isinstance(items[-1], Health)
    broker.close()
    if not ring:
        tshark = shutil.which("tshark")
        assert (
            tshark is None
            or subprocess.run([tshark, "-r", recording], capture_output=True, check=False).returncode == 0
        )


@pytest.mark.parametrize("ring", [False, True])
def test_recording_goes_on_once_a_full_disk_has_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, small_disk: Path, ring: bool
) -> None:
    places(monkeypatch, tmp_path)
    broker = FakeBroker()
    said: list[str] = []
    recording = small_disk / ("ring" if ring else "r.pcapng")
    settings: dict[str, Any] = {"ring_files": 3, "ring_bytes": 1 << 20, "ring_zstd": False} if ring else {}
    other = small_disk / "other"
    other.write_bytes(bytes(3 << 20))
    with relay(broker.address, record_to=recording, **settings) as process:
        process.on_event(lambda event: said.append(event.get("message", "")))
        talk(broker, process.bootstrap, *syncs(32, 128 << 10))
        assert wait_until(lambda: any("No space left on device; traffic goes on" in one for one in said), SECONDS)
        other.unlink()

        def goes_on() -> bool:
            talk(broker, process.bootstrap, *syncs(2, 1 << 10))
            return any("packets are missing" in one for one in said)

        assert wait_until(goes_on, SECONDS)
        talk(broker, process.bootstrap, *syncs(5, 1 << 10))
        assert process.command("status")["recorder"]["failed"] is None
        process.stop()
    reader = read(recording)
    items = list(reader)
    reader.close()
    broker.close()
    whole = [one for one in items if isinstance(one, Exchange) and one.request and one.response]
    assert len(whole) >= 5, "the connections after it are recorded"
    health = items[-1]
    assert isinstance(health, Health)
    assert health.recorder_dropped


def test_sniffing_goes_on_once_a_full_disk_has_room(tmp_path: Path, small_disk: Path) -> None:
    other, recording = small_disk / "other", small_disk / "w.pcapng"
    other.write_bytes(bytes(3 << 20))
    with closing(FakeBroker()) as broker:
        port = broker.address.rpartition(":")[2]
        sniff = (KPROXY, "sniff", "lo", "--port", port, "--headless", "-w", recording)
        said = tmp_path / "said"
        with listening(tmp_path, *sniff) as sniffer:
            talk(broker, broker.address, *syncs(32, 128 << 10))
            eventually(lambda: "No space left on device" in said.read_text(), "the disk is full")
            other.unlink()

            def goes_on() -> bool:
                talk(broker, broker.address, *syncs(2, 1 << 10))
                return "packets are missing" in said.read_text()

            eventually(goes_on, "it records again")
            talk(broker, broker.address, *syncs(5, 1 << 10))
            assert end(sniffer) == 0
    reader = read(recording)
    whole = [one for one in reader if isinstance(one, Exchange) and one.request and one.response]
    reader.close()
    assert len(whole) >= 5
    assert reader.health.recorder_dropped
