"""Reads the recording of a session while it grows: the exchanges since a given time, and a copy of their packets."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kproxy.captures.decrypted import open_capture
from kproxy.captures.errors import CaptureError
from kproxy.captures.outputs import create
from kproxy.captures.reader import read
from kproxy.captures.repacking import PacketFile, Packets
from kproxy.decoders.exchange import Exchange as Found
from kproxy.decoders.view import View
from kproxy.library.exchange import Exchange
from kproxy.library.proxy import Proxy
from kproxy.library.reading import Reading, expression_of

READ_SECONDS = 10.0
"""Maximum time in seconds until packets that the relay has written can be read."""
POLL_SECONDS = 0.01


class Traffic:
    """The exchanges of a proxy, oldest first."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._reading: Reading | None = None
        self._exchanges: list[Found] = []

    def since(self, start: int, text: str) -> Iterator[Exchange]:
        """The exchanges whose request began at `start` (ns since the epoch) or later and that match a filter.

        They do not change when their responses arrive later. Raises FilterError.
        """
        expression = expression_of(text)
        reading = self._read(start)
        for found in reading.selection(expression, Counter())(self._exchanges):
            exchange = Exchange(copy.copy(found), reading)
            # Decoded at once, because the recording forgets its oldest bytes.
            exchange.json  # noqa: B018
            yield exchange

    def _read(self, start: int) -> Reading:
        """Read all traffic so far; forget exchanges that began before `start`."""
        wanted = self._proxy.flush()
        if self._reading is None:
            self._reading = Reading(read(self._proxy.recording, follow=True), View())
        reader = self._reading.reader
        deadline = time.monotonic() + READ_SECONDS
        while True:
            reader.poll()
            self._exchanges += reader.started
            if reader.idle and reader.health.packets >= wanted:
                break
            if reader.idle:
                if time.monotonic() > deadline:
                    raise CaptureError("the recording has not grown", str(self._proxy.recording))
                time.sleep(POLL_SECONDS)
        self._exchanges = [one for one in self._exchanges if (_began(one) or start) >= start]
        return self._reading

    def copy(self, start: int, path: Path) -> None:
        """Writes the packets since `start` to a new pcapng file, with their comments."""
        self._proxy.flush()
        source = open_capture(self._proxy.recording)
        try:
            with create(path) as out:
                file = PacketFile(out)
                for packet in Packets(source):
                    if packet.time >= start:
                        file.add(packet)
                file.close()
        finally:
            source.close()

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()


def _began(exchange: Found) -> int | None:
    frame = exchange.request or exchange.response
    return None if frame is None else frame.first_time
