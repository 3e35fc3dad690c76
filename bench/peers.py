"""A broker, and the compared ways to it: a direct connection, socat, HAProxy, a plain pump and kproxy.

Each request says how many bytes the broker's response must have. The broker and each proxy are separate processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import psutil
import uvloop

from kproxy.runs.launcher import RelayProcess
from kproxy.runs.settings import Settings, upstream
from tests.support.brokers import free_ports

HEAD = struct.Struct(">ihhi")
ASKED = struct.Struct(">ihhihi")
"""A request's header with a null client id, followed by the wanted size of the response."""
FETCH_HELD = (1, 17)
BUFFER = 1 << 18
READY_SECONDS = 20.0

Api = tuple[int, int]


def request(api: Api, correlation_id: int, size: int, answer: int) -> bytes:
    """A request of `size` bytes whose body begins with the size of the response."""
    size = max(size, ASKED.size)
    return ASKED.pack(size - 4, *api, correlation_id, -1, answer) + bytes(size - ASKED.size)


def fetch_body(size: int) -> bytes:
    """A Fetch v17 response after its correlation id: one partition with records, no endpoints."""

    def varint(value: int) -> bytes:
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes([*out, value])

    records = max(size - 90, 1)
    partition = struct.pack(">ihqqq", 0, 0, 0, 0, 0) + b"\x01" + struct.pack(">i", -1) + varint(records + 1)
    partition += bytes(records) + b"\0"
    topic = bytes(16) + b"\x02" + partition + b"\0"
    return b"\0" + struct.pack(">ihi", 0, 0, 0) + b"\x02" + topic + b"\0"


def _at_once(transport: asyncio.BaseTransport) -> asyncio.Transport:
    """The transport with TCP_NODELAY, so that small segments are sent at once."""
    transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return cast("asyncio.Transport", transport)


class _Broker(asyncio.BufferedProtocol):
    def __init__(self, answers: dict[tuple[Api, int], bytes]) -> None:
        self._answers = answers
        self._buffer = memoryview(bytearray(BUFFER))
        self._head = bytearray()
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = _at_once(transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        at = 0
        while at < nbytes:
            if len(self._head) < ASKED.size:
                taken = self._buffer[at : min(at + ASKED.size - len(self._head), nbytes)]
                self._head += taken
                at += len(taken)
                if len(self._head) < ASKED.size:
                    return
                self._left = HEAD.unpack_from(self._head)[0] + 4 - ASKED.size
            taken_on = min(self._left, nbytes - at)
            self._left -= taken_on
            at += taken_on
            if not self._left:
                self._answer()

    def _answer(self) -> None:
        _, key, version, correlation_id, _, size = ASKED.unpack(self._head)
        self._head.clear()
        api = (key, version)
        body = self._answers.get((api, size))
        if body is None:
            body = self._answers[api, size] = fetch_body(size) if api == FETCH_HELD else bytes(size)
        self._transport.write(struct.pack(">ii", len(body) + 4, correlation_id) + body)


class _Pump(asyncio.Protocol):
    """The minimum that every proxy does: read from one side and write to the other."""

    def __init__(self, other: _Pump | None, target: tuple[str, int]) -> None:
        self._other = other
        self._target = target
        self.early: list[bytes] = []
        """Bytes received before the connection to the other side was open."""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = _at_once(transport)
        if self._other is not None:
            self.transport.writelines(self._other.early)
            return
        other = self._other = _Pump(self, self._target)
        loop = asyncio.get_running_loop()
        self._dialling = loop.create_task(loop.create_connection(lambda: other, *self._target))

    def data_received(self, data: bytes) -> None:
        if self._other is not None and self._other.transport is not None:
            self._other.transport.write(data)
        else:
            self.early.append(data)

    def pause_writing(self) -> None:
        if self._other is not None and self._other.transport is not None:
            self._other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None and self._other.transport is not None:
            self._other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._other is not None and self._other.transport is not None:
            self._other.transport.close()
        self._other = None


def _serve(listener: socket.socket, target: tuple[str, int] | None) -> None:
    async def forever() -> None:
        answers: dict[tuple[Api, int], bytes] = {}
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: _Broker(answers) if target is None else _Pump(None, target), sock=listener
        )
        await server.serve_forever()

    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(forever())


@contextlib.contextmanager
def process(target: tuple[str, int] | None = None) -> Iterator[tuple[tuple[str, int], int]]:
    """Run a broker, or a pump to `target`; yields its address and process id."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    worker = multiprocessing.Process(target=_serve, args=(listener, target), daemon=True)
    worker.start()
    assert worker.pid is not None
    try:
        yield listener.getsockname()[:2], worker.pid
    finally:
        worker.terminate()
        worker.join()
        listener.close()


@dataclass(frozen=True, slots=True)
class Way:
    """A way to the broker; `about` describes its version or configuration."""

    name: str
    address: tuple[str, int]
    about: str
    pid: int = 0
    """Id of the proxy's process; 0 for a direct connection."""

    def cpu(self) -> float:
        """CPU seconds that the way's processes have used so far."""
        return spent_by(self.pid) if self.pid else 0.0

    def connect(self) -> socket.socket:
        connection = socket.create_connection(self.address, 30)
        connection.settimeout(None)  # with a timeout, MSG_WAITALL does not wait
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def spent_by(pid: int) -> float:
    """CPU seconds that a process and its children have used."""
    root = psutil.Process(pid)
    times = [one.cpu_times() for one in (root, *root.children())]
    return float(sum(one.user + one.system for one in times))


def direct(address: tuple[str, int]) -> Way:
    return Way("direct", address, "no proxy")


@contextlib.contextmanager
def pump(address: tuple[str, int]) -> Iterator[Way]:
    with process(address) as (listening, pid):
        yield Way("pump", listening, f"reads and writes, uvloop {version('uvloop')}", pid)


@contextlib.contextmanager
def kproxy(address: tuple[str, int], record_to: Path | None = None, *, name: str = "", **others: Any) -> Iterator[Way]:
    """Starts kproxy's relay; `others` are further `Settings`."""
    settings = Settings(
        upstream=upstream("{}:{}".format(*address)),
        listen_port=0,
        probe=False,
        record_to=None if record_to is None else str(record_to),
        **others,
    )
    with RelayProcess(settings) as relay:
        host, _, port = relay.bootstrap.rpartition(":")
        about = f"the relay's process, recording to {'-w FILE' if record_to else 'the scratch ring'}"
        yield Way(name or ("kproxy" if record_to is None else "kproxy -w"), (host, int(port)), about, relay.pid)


def _version(*command: str) -> str:
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return next(line for line in said.splitlines() if "version" in line).split(" - ")[0].strip()


@contextlib.contextmanager
def _started(name: str, said: str, command: list[str], port: int) -> Iterator[Way]:
    running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield Way(name, ("127.0.0.1", port), f"{said}: {' '.join(command)}", running.pid)
    finally:
        running.terminate()
        running.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def socat(address: tuple[str, int]) -> contextlib.AbstractContextManager[Way] | None:
    """A context with socat as a way to the broker; None if socat is not installed."""
    program = shutil.which("socat")
    if program is None:
        return None
    (port,) = free_ports(1)
    command = [program, "-b", "65536", f"TCP-LISTEN:{port},reuseaddr,fork,nodelay,backlog=512,bind=127.0.0.1",
               "TCP:{}:{},nodelay".format(*address)]  # fmt: skip
    return _started("socat", _version(program, "-V"), command, port)


HAPROXY = """\
global
    nbthread {threads}
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen relay
    bind 127.0.0.1:{port}
    server broker {host}:{upstream}
"""


def haproxy(address: tuple[str, int], directory: Path) -> contextlib.AbstractContextManager[Way] | None:
    """A context with HAProxy as a way to the broker, with its default of one thread per core; None if it is not
    installed.

    `directory` is for its configuration.
    """
    program = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        return None
    (port,) = free_ports(1)
    configuration = directory / "haproxy.cfg"
    threads = len(os.sched_getaffinity(0))
    configuration.write_text(HAPROXY.format(threads=threads, port=port, host=address[0], upstream=address[1]))
    said = f"{_version(program, '-v')}, {threads} threads"
    return _started("haproxy", said, [program, "-q", "-db", "-f", str(configuration)], port)
