"""Hostile brokers and clients, an honest pair that shares a relay with them, and the relay's use of resources."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

import psutil

SECONDS = 60.0
"""Timeout after which whatever is waited for counts as hanging."""

Answer = Callable[[int, int, int], Iterable[bytes]]
"""Maps a request's (API key, version, correlation id) to the pieces of the answer, each sent by one system call."""

_HEAD = struct.Struct(">ihhi")
API_VERSIONS, METADATA = 18, 3
METADATA_VERSION = 1
"""The first version with a controller; it has no compact fields, so frames are simple to write."""


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def request(api_key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    """A request's frame, without a client id."""
    return framed(struct.pack(">hhih", api_key, version, correlation_id, -1) + body)


def metadata(correlation_id: int, nodes: Iterable[tuple[int, bytes, int]], more: bytes = b"") -> bytes:
    """A response of Metadata v1 with nodes (id, host, port); `more` makes topic names of at most 32,000 bytes."""
    entries = [
        struct.pack(">ih", node_id, len(host)) + host + struct.pack(">ih", port, -1) for node_id, host, port in nodes
    ]
    topics = struct.pack(">i", 0)
    if more:
        names = [more[at : at + 32_000] for at in range(0, len(more), 32_000)]
        each = [struct.pack(">hh", 0, len(name)) + name + struct.pack(">bi", 0, 0) for name in names]
        topics = struct.pack(">i", len(each)) + b"".join(each)
    return framed(struct.pack(">ii", correlation_id, len(entries)) + b"".join(entries) + struct.pack(">i", 0) + topics)


def told(frame: bytes) -> dict[int, tuple[bytes, int]]:
    """The nodes in a response of Metadata v1: (host, port) by id."""
    (count,) = struct.unpack_from(">i", frame, 8)
    at, found = 12, {}
    for _ in range(count):
        node_id, size = struct.unpack_from(">ih", frame, at)
        host = frame[at + 6 : at + 6 + size]
        (port,) = struct.unpack_from(">i", frame, at + 6 + size)
        found[node_id] = host, port
        at += 12 + size
    return found


def exactly(connection: socket.socket, size: int) -> bytes:
    """`size` bytes, or fewer if the other side ends first."""
    got = bytearray()
    while len(got) < size:
        piece = connection.recv(min(size - len(got), 1 << 20))
        if not piece:
            break
        got += piece
    return bytes(got)


def frame(connection: socket.socket, most: int = 1 << 30) -> bytes:
    """The next frame with its length field.

    b"" if the other side ends or resets before the frame is complete, or if its length exceeds `most` bytes.
    """
    with contextlib.suppress(ConnectionError):
        head = exactly(connection, 4)
        size = int.from_bytes(head, "big")
        if size > most:
            return b""
        data = head + exactly(connection, size)
        if len(data) == 4 + size:
            return data
    return b""


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), SECONDS)


def echo(_key: int, _version: int, correlation_id: int) -> Iterable[bytes]:
    """A minimal answer to any request."""
    return (framed(struct.pack(">ih", correlation_id, 0)),)


class Broker:
    """A broker on loopback that answers every request by `answer`, with one thread for each connection."""

    def __init__(self, answer: Answer = echo) -> None:
        self.answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while len(asked := frame(connection)) >= _HEAD.size:  # as Kafka, which ends the connection at less
                _, api_key, version, correlation_id = _HEAD.unpack_from(asked)
                for piece in self.answer(api_key, version, correlation_id):
                    connection.sendall(piece)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Waiting:
    """A client that sends requests continually; `longest` is the longest wait for an answer, in seconds.

    `failed` says why it has stopped.
    """

    def __init__(self, address: str) -> None:
        self.longest = 0.0
        self.answers = 0
        self.failed = ""
        self._asked: float | None = None
        self._stop = threading.Event()
        self._connection = connect(address)
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        try:
            while not self._stop.wait(0.002):
                self._asked = time.monotonic()
                self._connection.sendall(request(API_VERSIONS, 0, self.answers))
                if not frame(self._connection):
                    self.failed = "the connection was closed"
                    return
                self.longest = max(self.longest, time.monotonic() - self._asked)
                self.answers += 1
        except OSError as error:
            self.failed = repr(error)

    def so_far(self) -> float:
        """The longest wait in seconds, the present one included."""
        return max(self.longest, 0.0 if self._asked is None else time.monotonic() - self._asked)

    def await_answers(self, more: int = 3) -> None:
        """Wait for `more` answers. Raises AssertionError if they do not come."""
        wanted = self.answers + more
        deadline = time.monotonic() + SECONDS
        while self.answers < wanted:
            assert not self.failed, self.failed
            assert time.monotonic() < deadline, "an honest client waits"
            time.sleep(0.005)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(1)
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class Taken:
    """Resources of a process: resident bytes, descriptors, listening sockets."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)

    @property
    def memory(self) -> int:
        return int(self._process.memory_info().rss)

    @property
    def descriptors(self) -> int:
        return int(self._process.num_fds())

    @property
    def listeners(self) -> int:
        return sum(one.status == psutil.CONN_LISTEN for one in self._process.net_connections("tcp"))
