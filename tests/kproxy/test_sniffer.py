"""What the sniffer writes of what a device delivers, without a device; scapy reads it as well."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import RawPcapNgReader

from kproxy.captures.reader import read
from kproxy.captures.sniffing import SniffError
from kproxy.decoders.exchange import Exchange
from kproxy.recording import sniffer
from kproxy.recording.sniffer import Sniffer
from kproxy.relay.process import FailedError
from kproxy.runs.registry import EXIT_USAGE
from kproxy.runs.settings import Settings
from tests.kproxy.core.frames import request, response

CLIENT, BROKER = "10.0.0.1", "10.0.0.2"
HEARTBEAT = 12
COOKED2, RAW = 276, 101
BEFORE = {RAW: b"", COOKED2: b"\x08\x00" + bytes(18)}
START_NS = 1_700_000_000_123_456_000

Packet = tuple[int, bytes, int]


class Scripted:
    """A device that has these packets, then these `late` ones, then none; `missed` counts those that it lost."""

    def __init__(
        self, packets: list[Packet], link: int = RAW, missed: int = 0, ends: bool = False, late: Sequence[Packet] = ()
    ) -> None:
        self.name = "eth7"
        self.link = link
        self.missed = missed
        self.closed = False
        self._packets = packets
        self._late = list(late)
        self._ends = ends
        self._ready, self._writing = os.pipe()
        os.write(self._writing, b"x")

    def fileno(self) -> int:
        return self._ready

    def packets(self) -> Iterator[Packet]:
        while self._packets:
            yield self._packets.pop(0)
        self._packets, self._late = self._late, []
        if self._ends:
            raise SniffError("eth7: the interface disappeared")

    def close(self) -> None:
        self.closed = True
        os.close(self._ready)
        os.close(self._writing)


def exchange(link: int) -> list[Packet]:
    from scapy.layers.inet import IP, TCP
    from scapy.packet import Raw

    def one(moment: int, up: bool, seq: int, ack: int, flags: str, data: bytes = b"") -> Packet:
        ends = (CLIENT, BROKER, 40000, 9092) if up else (BROKER, CLIENT, 9092, 40000)
        tcp = TCP(sport=ends[2], dport=ends[3], seq=seq, ack=ack, flags=flags)
        held = BEFORE[link] + bytes(IP(src=ends[0], dst=ends[1]) / tcp / Raw(data))
        return START_NS + moment * 1000, held, len(held)

    asks, answers = request(HEARTBEAT, 0, 1, b""), response(HEARTBEAT, 0, 1, {})
    return [
        one(0, True, 100, 0, "S"),
        one(1, False, 500, 101, "SA"),
        one(2, True, 101, 501, "PA", asks),
        one(7, False, 501, 101 + len(asks), "PA", answers),
    ]


def exchanges(path: Path) -> list[Exchange]:
    return [item for batch in read(path).batches() for item in batch if isinstance(item, Exchange)]


@pytest.fixture
def sniff(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Scripted], Path]:
    def run(device: Scripted, settings: Settings | None = None) -> Path:
        path = tmp_path / "w.pcapng"
        chosen = settings or Settings(upstream=(), device="eth7", bpf="tcp port 9092", record_to=str(path))
        monkeypatch.setattr(sniffer, "Device", lambda *_, **__: device)
        stop, writing = os.pipe()
        os.write(writing, b"x")
        try:
            Sniffer(chosen).run(stop)
        finally:
            os.close(stop)
            os.close(writing)
        return path

    return run


@pytest.mark.parametrize("link", [RAW, COOKED2])
def test_packets_are_recorded_as_they_were(sniff: Callable[[Scripted], Path], link: int) -> None:
    packets = exchange(link)
    cut = (START_NS + 9000, b"\x45" + bytes(10), 1500)
    path = sniff(Scripted([*packets, cut], link))
    with RawPcapNgReader(str(path)) as outside:
        found: list[tuple[bytes, Any]] = list(outside)
    assert [data for data, _ in found] == [data for _, data, _ in [*packets, cut]]
    assert {about.linktype for _, about in found} == {link}
    assert [about.tshigh << 32 | about.tslow for _, about in found] == [time for time, _, _ in [*packets, cut]]
    assert found[-1][1].wirelen == 1500
    (one,) = exchanges(path)
    assert one.request is not None
    assert one.response is not None
    assert one.response.time - one.request.time == 5000


def test_what_the_kernel_still_gathers_when_it_is_stopped_is_recorded(sniff: Callable[[Scripted], Path]) -> None:
    *first, last = exchange(RAW)
    (one,) = exchanges(sniff(Scripted(first, late=[last])))
    assert one.response is not None


def test_what_is_recorded_and_what_is_not_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sniffer, "Device", lambda *_, **__: Scripted(exchange(RAW), missed=7))
    path = tmp_path / "w.pcapng"
    one = Sniffer(Settings(upstream=(), device="eth7", record_to=str(path)))
    header = path.stat().st_size
    stop, writing = os.pipe()
    os.write(writing, b"x")
    one.run(stop)
    os.close(stop)
    os.close(writing)
    told = one.status()
    assert told["recording"] == str(path)
    assert (told["recorder"]["packets"], told["recorder"]["dropped"]) == (4, 7)
    assert 0 < told["recorder"]["bytes"] <= path.stat().st_size - header


def test_what_the_kernel_had_no_room_for_is_counted(sniff: Callable[[Scripted], Path]) -> None:
    reader = read(sniff(Scripted(exchange(RAW), missed=7)))
    for _ in reader.batches():
        pass
    assert reader.health.recorder_dropped == 7


def test_the_file_says_what_it_leaves_out(sniff: Callable[[Scripted], Path]) -> None:
    content = sniff(Scripted([])).read_bytes()
    assert b"packets that match tcp port 9092" in content
    assert b"eth7" in content


def test_a_device_that_goes_away_leaves_a_whole_recording(sniff: Callable[[Scripted], Path], tmp_path: Path) -> None:
    device = Scripted(exchange(RAW), ends=True)
    with pytest.raises(SniffError, match="disappeared"):
        sniff(device)
    assert device.closed
    assert len(exchanges(tmp_path / "w.pcapng")) == 1


def test_a_ring_takes_packets_of_any_size(
    sniff: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sniffer, "AT_ONCE", 1000)
    ring = tmp_path / "ring"
    ring.mkdir()
    settings = Settings(upstream=(), device="eth7", scratch=16 << 20, scratch_dir=str(ring))
    packets = [(START_NS, bytes(200_000), 262_144)] * 150
    sniff(Scripted(packets), settings)
    sizes = [path.stat().st_size for path in ring.glob("seg-*")]
    assert len(sizes) == 16
    assert max(sizes) <= 1 << 20


def full(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_recording_goes_on_once_a_full_disk_has_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    device = Scripted(exchange(RAW), missed=3)
    monkeypatch.setattr(sniffer, "Device", lambda *_, **__: device)
    monkeypatch.setattr("kproxy.recording.writing.RETRY_SECONDS", 0)
    path = tmp_path / "w.pcapng"
    one = Sniffer(Settings(upstream=(), device="eth7", record_to=str(path)))
    real = os.writev
    monkeypatch.setattr(os, "writev", full)
    one._take()
    assert one.status()["recorder"]["failed"] == "No space left on device"
    monkeypatch.setattr(os, "writev", real)
    device._packets = exchange(RAW)
    stop, writing = os.pipe()
    os.write(writing, b"x")
    one.run(stop)
    os.close(stop)
    os.close(writing)
    counters = one.status()["recorder"]
    assert (counters["packets"], counters["dropped"], counters["failed"]) == (4, 7, None)
    reader = read(path)
    assert len([item for item in reader if isinstance(item, Exchange)]) == 1
    assert reader.health.recorder_dropped == 7
    stopped, resumed = map(json.loads, capfd.readouterr().out.splitlines())
    assert stopped["stopped"] == "No space left on device"
    assert resumed["stopped"] == ""
    assert "4 packets are missing" in resumed["message"]


def test_what_a_full_disk_has_no_room_for_is_told_when_it_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Packets that come before the disk is tried again are told at the end, where it has room by then."""
    device = Scripted(exchange(RAW))
    monkeypatch.setattr(sniffer, "Device", lambda *_, **__: device)
    path = tmp_path / "w.pcapng"
    one = Sniffer(Settings(upstream=(), device="eth7", record_to=str(path)))
    real = os.writev
    monkeypatch.setattr(os, "writev", full)
    one._take()
    monkeypatch.setattr(os, "writev", real)
    device._packets = exchange(RAW)
    stop, writing = os.pipe()
    os.write(writing, b"x")
    one.run(stop)
    os.close(stop)
    os.close(writing)
    reader = read(path)
    assert not [item for item in reader if isinstance(item, Exchange)]
    assert reader.health.recorder_dropped == 8


def test_a_disk_that_refuses_for_another_reason_ends_it(
    sniff: Callable[[Scripted], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> int:
        monkeypatch.undo()
        raise OSError(errno.EIO, "Input/output error")

    class Broken(Scripted):
        def packets(self) -> Iterator[Packet]:
            monkeypatch.setattr(os, "writev", broken)
            yield from super().packets()

    with pytest.raises(SniffError, match=r"w\.pcapng: Input/output error"):
        sniff(Broken(exchange(RAW)))


def test_a_recording_that_cannot_begin(sniff: Callable[..., Path], tmp_path: Path) -> None:
    settings = Settings(upstream=(), device="eth7", record_to=str(tmp_path / "none" / "w.pcapng"))
    with pytest.raises(FailedError, match=r"cannot record to .*No such file") as caught:
        sniff(Scripted([]), settings)
    assert caught.value.code == EXIT_USAGE
