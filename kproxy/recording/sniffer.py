"""The sniffer's process: python -m kproxy.recording.sniffer, with its settings as one line of JSON on standard input.

It appends the packets of a network device to a recording. Like the relay (kproxy.relay.process), it writes events as
JSON lines to standard output ("listening", "failed", "warning", "stopped"), keeps `run.json` up to date and answers
commands on `control.sock`. It ends on SIGTERM; with the setting `attached` it also ends with the process that started
it.

Packets are written without a second thread. While a slow disk blocks, they wait in the kernel's capture buffer; packets
that do not fit there are counted in the recording as dropped. So are packets that arrive while the disk is full;
recording resumes when there is room.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from kproxy.captures.errors import CaptureError
from kproxy.captures.formats.pcapng_writer import packet
from kproxy.captures.processes import name_process
from kproxy.captures.sniffing import WAITING_MS, Device, NotPermittedError, SniffError
from kproxy.recording.opening import Opened, open_recording
from kproxy.recording.sinks import Batch
from kproxy.recording.writing import Writer, resumed
from kproxy.relay.process import FailedError, no_control
from kproxy.runs import registry, scratch
from kproxy.runs.registry import EXIT_PERMISSION, EXIT_USAGE
from kproxy.runs.settings import Settings

WAIT_SECONDS = 0.1
"""Interval in seconds at which devices are read that do not signal arriving packets."""
COUNT_SECONDS = 0.5
"""Interval in seconds at which the kernel's counters are read."""
GATHERED_SECONDS = 2 * WAITING_MS / 1000
"""Seconds after which the kernel has delivered all packets that it had buffered."""
AT_ONCE = 4096
"""Maximum number of packets read in a row, before the stop signal and the counters are checked again."""


def tell(event: dict[str, Any]) -> None:
    """Writes an event to standard output as a line of JSON; drops the event if nobody reads it."""
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), json.dumps(event).encode() + b"\n")


class Sniffer:
    """Records the packets of one device."""

    def __init__(self, settings: Settings) -> None:
        """Opens the device and the recording. Raises FailedError if one of them cannot be opened."""
        try:
            self._device = Device(settings.device, settings.bpf, promiscuous=settings.promiscuous)
        except NotPermittedError as error:
            raise FailedError(f"{error}: {_permitting()}", EXIT_PERMISSION) from None
        except SniffError as error:
            raise FailedError(str(error), EXIT_USAGE) from None
        self.recording = settings.record_to or settings.scratch_dir
        try:
            self._opened: Opened = open_recording(settings, interface=self._device.name, link=self._device.link)
        except (OSError, CaptureError) as error:
            why = error.strerror if isinstance(error, OSError) else error.message
            code = EXIT_PERMISSION if isinstance(error, PermissionError) else EXIT_USAGE
            raise FailedError(f"cannot record to {self.recording}: {why}", code) from None
        self._attached = settings.attached
        self._missed = 0
        self._counted = 0.0
        self._writer = Writer(self._opened.sink, self._recording_failed, self._recording_resumed)
        self.counters = self._writer.counters
        self.alone = False
        """Whether the process that started this one has ended."""

    def run(self, stop: int) -> None:
        """Records until the descriptor `stop` is readable or, if `attached` is set, until standard input ends.

        Raises SniffError if the device goes away, or if writing fails for another reason than a full disk.
        """
        try:
            ready: list[int] = []
            watched = [self._device.fileno(), stop, 0]
            while stop not in ready and not (self.alone and self._attached):
                ready, _, _ = select.select(watched, [], [], WAIT_SECONDS)
                if 0 in ready:
                    self.alone = True
                    watched.remove(0)
                self._take()
            time.sleep(GATHERED_SECONDS)
            self._take(last=True)
        finally:
            self._writer.close()
            self._device.close()

    def _take(self, *, last: bool = False) -> None:
        """Records the packets that have arrived; with `last`, also reads the kernel's counters, even if they are not
        due.
        """
        batch = Batch()
        gone = None
        new = 0
        try:
            for time_ns, data, length in islice(self._device.packets(), AT_ONCE):
                before, after = packet(time_ns, data, length)
                batch.buffers += (before, data, after)
                batch.size += len(before) + len(data) + len(after)
                batch.packets += 1
                if batch.size >= self._opened.batch_bytes:
                    self._write(batch)
                    batch = Batch()
        except SniffError as error:
            gone = error
        now = time.monotonic()
        if last or now - self._counted >= COUNT_SECONDS:
            self._counted = now
            missed = self._device.missed
            new, self._missed = missed - self._missed, missed
            self.counters.dropped += new
        if batch.packets or new:
            self._write(batch)
        if gone is not None:
            raise gone

    def _write(self, batch: Batch) -> None:
        if self._writer.take(batch):
            self._writer.write(batch)
        if self._writer.ended:
            raise SniffError(f"{self.recording}: {self.counters.failed}")

    def _recording_failed(self, why: str) -> None:
        if not self._writer.ended:
            message = f"recording to {self.recording} has stopped: {why}; recording resumes when there is room"
            tell({"event": "warning", "topic": "recorder", "message": message, "stopped": why})

    def _recording_resumed(self, missing: int) -> None:
        tell({"event": "warning", "topic": "recorder", "message": resumed(self.recording, missing), "stopped": ""})

    def status(self) -> dict[str, Any]:
        """The counters for `kproxy ps`: those that relays and sniffers have in common."""
        return {"recorder": asdict(self.counters), "recording": self.recording}


def _permitting() -> str:
    """Advice for a user who lacks the permission to capture packets."""
    python = Path(sys.executable).resolve()
    return f"run it with sudo, or let this Python listen: sudo setcap cap_net_raw=eip {python}"


def _wakened() -> int:
    """A file descriptor that becomes readable when the process receives SIGTERM or SIGINT."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return reading


def main() -> int:
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return EXIT_USAGE
        line += byte
    settings = Settings.from_json(line.decode())
    own = [Path(one) for one in (settings.scratch_dir, settings.index_dir, settings.run_dir) if one is not None]
    os.umask(0o077)
    stop = _wakened()
    holds = [scratch.hold(directory) for directory in own]
    try:
        sniffer = Sniffer(settings)
        _make_known(sniffer, settings)
    except FailedError as failure:
        tell({"event": "failed", "message": str(failure), "exit": failure.code})
        return failure.code
    tell(
        {
            "event": "listening",
            "bootstrap": settings.device,
            "clusters": {"": settings.device},
            "recording": sniffer.recording,
            "pid": os.getpid(),
        }
    )
    code = 0
    try:
        sniffer.run(stop)
        tell({"event": "stopped"})
    except (SniffError, OSError) as error:
        why = str(error)
        tell({"event": "warning", "topic": "sniffer", "message": f"nothing more is recorded: {why}", "stopped": why})
        code = EXIT_USAGE
    if settings.run_dir is not None:
        (Path(settings.run_dir) / registry.RUN_FILE).unlink(missing_ok=True)
    if sniffer.alone:
        for directory in own:
            scratch.remove(directory)
    for hold in holds:
        os.close(hold)
    return code


def _make_known(sniffer: Sniffer, settings: Settings) -> None:
    """Opens the control socket and writes run.json, so that other commands find this sniffer. Raises FailedError."""
    if settings.run_dir is None:
        return
    run_dir = Path(settings.run_dir)
    try:
        listener = registry.control_socket(run_dir)
    except OSError as error:
        raise no_control(run_dir, error) from None
    registry.answer_in_thread(listener, {"status": lambda _: sniffer.status(), "stop": lambda _: _told_to_stop()})
    registry.save(
        run_dir,
        settings,
        time.time(),
        listen=settings.device,
        bootstrap=settings.device,
        clusters={"": settings.device},
        upstream=[],
        recording=sniffer.recording,
        brokers={},
        warnings=[],
    )


def _told_to_stop() -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGTERM)
    return {"stopping": True}


if __name__ == "__main__":
    name_process("sniffer")
    sys.exit(main())
