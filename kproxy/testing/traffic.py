"""Reads the recording of a session while it grows: the exchanges since a given time, and a copy of their packets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kproxy.captures.decrypted import open_capture
from kproxy.captures.errors import CaptureError
from kproxy.captures.findings.model import finding_json
from kproxy.captures.findings.reading import Findings
from kproxy.captures.outputs import create
from kproxy.captures.reader import Reader, read
from kproxy.captures.repacking import PacketFile, Packets
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.filters import Matcher, parse
from kproxy.testing.proxy import Proxy

READ_SECONDS = 10.0
"""Maximum time in seconds until packets that the relay has written can be read."""
POLL_SECONDS = 0.01


class Traffic:
    """The exchanges of a proxy, oldest first."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._reader: Reader | None = None
        self._exchanges: list[Exchange] = []

    def since(self, start: int, text: str) -> Iterator[dict[str, Any]]:
        """The exchanges whose request began at `start` (ns since the epoch) or later and that match a filter.

        They are objects "kproxy.exchange/1". Raises ValueError if the filter is wrong.
        """
        parsed = parse(text)
        if parsed.expression is None and text.strip():
            raise ValueError("\n".join([parsed.message, *parsed.pointer(text)]))
        reader = self._read(start)
        matcher = None if parsed.expression is None else Matcher(parsed.expression, reader.source, reader.definitions)
        for exchange in self._exchanges:
            if matcher is None or matcher.matches(exchange):
                yield exchange_json(exchange, reader.source, reader.definitions, precision=reader.precision)

    def _read(self, start: int) -> Reader:
        """Read all traffic so far; forget exchanges that began before `start`."""
        wanted = self._proxy.flush()
        if self._reader is None:
            self._reader = read(self._proxy.recording, follow=True)
        reader = self._reader
        deadline = time.monotonic() + READ_SECONDS
        while True:
            reader.poll()
            self._exchanges += reader.started
            if reader.idle and reader.health.packets >= wanted:
                break
            if reader.idle:
                if time.monotonic() > deadline:
                    raise CaptureError("the recording does not grow", str(self._proxy.recording))
                time.sleep(POLL_SECONDS)
        self._exchanges = [one for one in self._exchanges if (_began(one) or start) >= start]
        return reader

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
        if self._reader is not None:
            self._reader.close()


def _began(exchange: Exchange) -> int | None:
    frame = exchange.request or exchange.response
    return None if frame is None else frame.first_time


def findings(capture: Path) -> list[dict[str, Any]]:
    """The findings in a capture: objects "kproxy.finding/1", the most costly first."""
    reader = read(capture)
    try:
        found = Findings(reader.source, reader.definitions, reader.health)
        for batch in reader.batches():
            found.add(batch, reader.closings)
        return [finding_json(one) for one in found.finish()]
    finally:
        reader.close()
