"""A link between transports of the test's own: who is read on, while somebody's buffer is full."""

from __future__ import annotations

import socket
import struct
from types import SimpleNamespace
from typing import Any

from kproxy.core.brokers import Book
from kproxy.core.connection import Connection
from kproxy.core.plans import Plans
from kproxy.core.shared import Shared
from kproxy.decoders.schema import definitions
from kproxy.relay.link import Link
from kproxy.runs.settings import SaslSettings

READ = 256 << 10


class Transport:
    """As uvloop's: `pause_writing` is called within `write`, once, when more than `high` bytes wait."""

    def __init__(self, side: Any, room: int) -> None:
        self.reading = True
        self.waiting = 0
        self._side = side
        self._room = room
        self._high = 0
        self._paused = False
        self._socket = socket.socket()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2), "socket": self._socket}.get(name, default)

    def set_write_buffer_limits(self, high: int) -> None:
        self._high = high

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def write(self, data: bytes) -> None:
        sent = min(self._room, len(data))
        self._room -= sent
        self.waiting += len(data) - sent
        if self.waiting > self._high and not self._paused:
            self._paused = True
            self._side.pause_writing()


def test_early_bytes_that_fill_the_broker_s_buffer_pause_the_client() -> None:
    plans = Plans(definitions(None))
    relay: Any = SimpleNamespace(
        passed=[0, 0],
        recorder=None,
        settings=SimpleNamespace(memory_max=256 << 20, listen_host="127.0.0.1", sasl=SaslSettings()),
        room=SimpleNamespace(taken=2000),
        admit=lambda _: True,
        spawn=lambda dialling: dialling.close(),
        connections=1,
        upstream=SimpleNamespace(recorded=lambda *_: None),
        acting=SimpleNamespace(connection=lambda *_: Connection(Shared(plans, Book(lambda _: 0)), "127.0.0.1")),
    )
    link: Any = Link(relay, None)
    client, broker = Transport(link.client, 0), Transport(link.broker, READ // 3)
    link.client.connection_made(client)
    link.client.data_received(struct.pack(">ihhi", 50_000_000, 0, 9, 1) + bytes(READ - 12))
    assert [client.reading, broker.reading] == [False, True]
    link.broker.connection_made(broker)
    assert broker.waiting == READ - READ // 3
    assert [client.reading, broker.reading] == [False, True]
    link.broker.resume_writing()
    assert [client.reading, broker.reading] == [True, True]
    for transport in (client, broker):
        transport.get_extra_info("socket").close()
