"""Two ends of a connection that record what they receive, joined directly, by socat or by kproxy."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from kproxy.runs.launcher import RelayProcess, wait_until
from kproxy.runs.settings import Settings, upstream
from tests.support.brokers import free_ports

SECONDS = 180.0
"""Timeout of a send that waits for a reader; longer than any stall of the tests."""
Seen = tuple[str | int, ...]
"""What an end observed: ("bytes", count, digest), ("fin",), ("rst",) or ("broken",)."""


class End:
    """One end; `seen` is what it has observed, in order. `send_meanwhile` sends in a thread."""

    def __init__(self, connection: socket.socket, seconds: float = SECONDS) -> None:
        self._connection = connection
        self._sending: threading.Thread | None = None
        self.seen: list[Seen] = []
        connection.settimeout(seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> Self:
        self._connection.sendall(data)
        return self

    def send_meanwhile(self, data: bytes) -> Self:
        self._sending = threading.Thread(target=self._connection.sendall, args=(data,))
        self._sending.start()
        return self

    def sent(self) -> Self:
        """Wait until `send_meanwhile` has sent everything."""
        if self._sending is not None:
            self._sending.join(SECONDS)
            assert not self._sending.is_alive(), "it cannot be sent"
        return self

    def dribble(self, data: bytes) -> Self:
        """Send each byte by its own call, as a segment."""
        for byte in data:
            self._connection.sendall(bytes([byte]))
        return self

    def pour(self) -> Self:
        """Send until an error shows that the other side is gone."""
        with contextlib.suppress(ConnectionError):
            for _ in range(10_000):
                self._connection.sendall(b"\0\0\0\x08\0\x0c\0\0\0\0\0\x01")
                time.sleep(0.001)
            self.seen.append(("deaf",))
            return self
        self.seen.append(("broken",))
        return self

    def read(self, size: int) -> Self:
        self._read(size)
        return self

    def read_to_the_end(self) -> Self:
        self.seen.append(self._read(None))
        return self

    def _read(self, size: int | None) -> Seen:
        digest, got, end = hashlib.sha256(), 0, ("",)
        while size is None or got < size:
            try:
                piece = self._connection.recv(1 << 16 if size is None else min(1 << 16, size - got))
            except ConnectionResetError:
                end = ("rst",)
                break
            if not piece:
                end = ("fin",)
                break
            digest.update(piece)
            got += len(piece)
        if got:
            self.seen.append(("bytes", got, digest.hexdigest()[:16]))
        assert size is None or got == size, f"{got} bytes of {size}, then {end[0]}"
        return end

    def finish(self) -> Self:
        """Send FIN; the end can still read."""
        self._connection.shutdown(socket.SHUT_WR)
        return self

    def reset(self) -> None:
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()

    def close(self) -> None:
        self._connection.close()

    def await_bytes(self) -> Self:
        """Wait until there are bytes to read, without reading them."""
        self._connection.recv(1, socket.MSG_PEEK)
        return self


@dataclass
class Way:
    """The path from client to server: the port that the client connects to, and the processes in between."""

    name: str
    port: int
    pids: Callable[[], Sequence[int]]

    def kill(self) -> None:
        """Kill the processes in between."""
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def direct(port: int) -> Iterator[Way]:
    yield Way("direct", port, list)


@contextlib.contextmanager
def through_socat(port: int) -> Iterator[Way]:
    """Option -t is needed because socat by default ends half a second after one side's FIN, even if the other sends."""
    (listen,) = free_ports(1)
    listening = f"TCP-LISTEN:{listen},reuseaddr,fork,nodelay,bind=127.0.0.1,backlog=1024"
    process = psutil.Popen(
        ["socat", "-t", "3600", "-b", "65536", listening, f"TCP:127.0.0.1:{port},nodelay"], stderr=subprocess.DEVNULL
    )

    def pids() -> list[int]:
        return [process.pid, *(child.pid for child in process.children())]

    try:
        assert wait_until(
            lambda: any(one.status == psutil.CONN_LISTEN for one in process.net_connections("tcp")), SECONDS
        )
        yield Way("socat", listen, pids)
    finally:
        for pid in pids() if process.is_running() else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        process.wait()


@contextlib.contextmanager
def through_kproxy(port: int, record_to: Path | None = None) -> Iterator[Way]:
    settings = Settings(
        upstream=upstream(f"127.0.0.1:{port}"),
        listen_port=0,
        probe=False,
        scratch=16 << 20,
        record_to=None if record_to is None else str(record_to),
    )
    with RelayProcess(settings) as process:
        yield Way("kproxy", int(process.bootstrap.rpartition(":")[2]), lambda: [process.pid])


Script = Callable[[End, End], None]
"""The steps of client and server."""
Between = Callable[[int], contextlib.AbstractContextManager[Way]]


@contextlib.contextmanager
def joined(between: Between) -> Iterator[tuple[End, End, Way]]:
    """A client and a server, connected through `between`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(SECONDS)
        with between(listener.getsockname()[1]) as way:
            client = End(socket.create_connection(("127.0.0.1", way.port), SECONDS))
            server = End(listener.accept()[0])
            try:
                yield client, server, way
            finally:
                client.close()
                server.close()


def both_see(script: Script, between: Between) -> dict[str, list[Seen]]:
    """Run a script through `between`; what each end has observed."""
    with joined(between) as (client, server, _):
        script(client, server)
    return {"client": client.seen, "server": server.seen}
