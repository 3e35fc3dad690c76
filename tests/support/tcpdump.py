"""Captures with tcpdump while a test runs."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.patience import SECONDS
from tests.support.require import require, unavailable

MARKED = ("127.0.0.1", 9)
"""Destination of the marker packet (UDP); nothing listens there."""


@contextlib.contextmanager
def captured(path: Path, bpf: str, snap: int | None = None) -> Iterator[None]:
    """Capture matching packets of the loopback device within the block into a file; skips without privilege.

    With `snap`, the file has at most so many bytes of each packet.
    """
    require("tcpdump")
    if os.geteuid():
        unavailable("listening on a device needs root")
    # without --immediate-mode the buffer (64 MiB) holds packets as they are, not in slots of the longest packet's size
    options = ["-i", "lo", "-U", "-B", "65536", "-Z", "root", *([] if snap is None else ["-s", str(snap)])]
    packets = f"({bpf}) or udp port {MARKED[1]}"
    # a busy machine runs tcpdump before brokers and clients, so that no packets are dropped
    first = ["nice", "-n", "-10"]
    with subprocess.Popen([*first, "tcpdump", *options, "-w", path, packets], stderr=subprocess.PIPE) as dump:
        try:
            assert dump.stderr is not None
            while b"listening" not in (said := dump.stderr.readline()):
                assert said, "tcpdump does not listen"
            yield
            _await_all(path)
        finally:
            dump.terminate()


def _await_all(path: Path) -> None:
    """Send a marker packet and wait until it is in the file: all earlier packets are there then."""
    marker, before = os.urandom(16), path.stat().st_size
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(marker, MARKED)
    deadline = time.monotonic() + SECONDS
    while True:
        with path.open("rb") as file:
            file.seek(before)
            if marker in file.read():
                return
        assert time.monotonic() < deadline, "tcpdump writes nothing more"
        time.sleep(0.05)
