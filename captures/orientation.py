"""Finds which side of a connection is the client, where the capture lacks the TCP handshake."""

from __future__ import annotations

from kproxy.captures.ports import Ports
from kproxy.decoders.conversation.recognition import which_side_asks
from kproxy.decoders.schema import Definitions
from kproxy.decoders.stream import End, Event, Run, Source

LOOKED_AT = 256
"""Number of first bytes of each side that are examined."""
SEGMENTS = 64
"""Number of segments after which the ports decide which side is the client."""
KNOWN_PORTS = (9092, 9093, 9094, 19092)
NOT_GIVEN = range(32768)
"""Ports below Linux's default range of ephemeral ports: by default, no client gets one of them."""


class Orientation:
    """Keeps a connection's events in `events` until it is known which side, 0 or 1, is the client.

    The captured bytes decide, or else the ports. Segments are examined one by one in the order of capture, so that the
    result does not depend on how packets were divided into batches.
    """

    def __init__(self, source: Source, definitions: Definitions, ports: tuple[int, int], wanted: Ports | None) -> None:
        self.events: list[Event] = []
        self._source = source
        self._definitions = definitions
        self._ports = ports
        self._wanted = wanted
        self._first = [b"", b""]
        self._seen = 0

    def client(self, events: list[Event]) -> int | None:
        """Add events; the number of the client's side (0 or 1), or None while it is unknown.

        Once the side is known, the delivery addresses of `events` are raised to the address of the segment that decided
        it.
        """
        self.events += events
        owned = [self._definitions.dialect_at(port) is not None for port in self._ports]
        if owned[0] != owned[1]:
            # A dialect is recognised by its port only; the side that listens there is the broker.
            return 1 if owned[0] else 0
        segments: list[tuple[int, int, int, int]] = []
        for event in events:
            if isinstance(event, Run):
                start = event.start
                for i, (end, at) in enumerate(zip(event.ends[:SEGMENTS], event.at[:SEGMENTS], strict=True)):
                    held = end - start if event.stored is None else event.stored[i]
                    segments.append((max(at, event.released), at, held, int(event.side)))
                    start = end
        for key, at, length, side in sorted(segments):
            client = self._look(at, length, side)
            if client is not None:
                self._hold_back(key)
                return client
        for event in events:
            if isinstance(event, End) and event.side is None and self._seen:
                self._hold_back(event.at)
                return self._at_last()
        return None

    def _look(self, at: int, length: int, side: int) -> int | None:
        """Examine one more segment, `length` bytes at address `at` sent by `side`; the client's side, or None."""
        self._seen += 1
        room = LOOKED_AT - len(self._first[side])
        if room > 0:
            self._first[side] += bytes(self._source.read(at, at + min(length, room)))
            asks = which_side_asks(self._first[0], self._first[1], self._definitions)
            if asks is not None:
                return asks
        return self._at_last() if self._seen >= SEGMENTS else None

    def _hold_back(self, key: int) -> None:
        for event in self.events:
            if isinstance(event, Run):
                event.released = max(event.released, key)
            else:
                event.at = max(event.at, key)

    def _at_last(self) -> int:
        """The client's side, guessed from the ports.

        The broker's port is one of the user's ports, a usual Kafka port, or below the range of ephemeral ports. If both
        or none are, captured bytes that hint at one side decide; at last the lower port is the broker's.
        """
        for known in (self._wanted or (), KNOWN_PORTS, NOT_GIVEN):
            listening = [port in known for port in self._ports]
            if listening[0] != listening[1]:
                return 1 if listening[0] else 0
        asks = which_side_asks(self._first[0], self._first[1], self._definitions, final=True)
        if asks is not None:
            return asks
        return 1 if self._ports[0] < self._ports[1] else 0
