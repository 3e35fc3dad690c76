"""A relay's process, brokers that follow a script, and raw clients."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.runs.launcher import RelayProcess
from kproxy.runs.settings import Settings, upstream
from tests.support.brokers import free_ports
from tests.support.homes import homes
from tests.support.patience import SECONDS


class FakeBroker:
    """A listening socket; `accept` gives the relay's connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(SECONDS)
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"

    def accept(self) -> socket.socket:
        connection, _ = self._listener.accept()
        connection.settimeout(SECONDS)
        return connection

    def close(self) -> None:
        self._listener.close()


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), SECONDS)


def exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer where the other side ends first."""
    got = bytearray()
    while len(got) < size:
        piece = connection.recv(size - len(got))
        if not piece:
            break
        got += piece
    return bytes(got)


def to_the_end(connection: socket.socket) -> bytes:
    got = bytearray()
    while piece := connection.recv(1 << 16):
        got += piece
    return bytes(got)


def reset(connection: socket.socket) -> None:
    """Close with RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def places(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """kproxy's directories inside one of the test's own."""
    for name, place in homes(directory).items():
        monkeypatch.setenv(name, place)


@contextlib.contextmanager
def relay(
    brokers: str,
    *,
    record_to: Path | None = None,
    probe: bool = False,
    hold_max: int = 1 << 20,
    record: bool = True,
    **others: Any,
) -> Iterator[RelayProcess]:
    """`others` are further `Settings`."""
    settings = Settings(
        upstream=upstream(brokers),
        listen_port=free_ports(1)[0],
        record_to=None if record_to is None else str(record_to),
        record=record,
        probe=probe,
        hold_max=hold_max,
        scratch=16 << 20,
        **others,
    )
    with RelayProcess(settings) as process:
        yield process
