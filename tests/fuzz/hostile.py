"""Whatever a broker and its clients send, the clients of another cluster in the process go on, within bounds.

Each input starts a relay of two clusters. One has a broker that lies and clients that do; what they say is Kafka's,
made large, cut, repeated and altered. Memory, descriptors and listeners of the relay stay within bounds, an honest
client of the other cluster is answered, an answer that can be read names the proxy alone, and the relay ends when it is
told to.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from unittest import mock

from kproxy.runs.launcher import RelayProcess
from kproxy.runs.settings import Cluster, Settings, upstream
from tests.support import hostile
from tests.support.brokers import free_ports
from tests.support.golden import golden
from tests.support.homes import homes

LISTENERS, CONNECTIONS = 20, 60
MEMORY = 8 << 20
MOST_MEMORY = 160 << 20
"""That an input may add: what is held, what waits for slow readers and for the recording, what is read at once."""
LONGEST = 4 << 20
"""Bytes of an answer that a client reads."""
MOST_FILES = 120 + LISTENERS + 2 * CONNECTIONS

ANSWERS = [frame.frame for frame in golden("4.4.0") if frame.kind == "response"]
REQUESTS = [frame.frame for frame in golden("4.4.0") if frame.kind == "request"]


def _nodes(dice: Random) -> list[tuple[int, bytes, int]]:
    count = dice.choice([0, 1, 3, 30, 300, 3000, 30_000])
    size = dice.choice([0, 1, 9, 97, 255, 256, 3000]) if count <= 300 else 4
    ports = dice.choice([(9092,), (0,), (0x6161,), (-1, 70_000), range(1, 60_000)])
    letters = dice.choice([b"a", b"ab", b"kafka.0123", bytes(range(256))])
    spread = dice.choice([1, 7, 65_536])
    hosts = [bytes(dice.choices(letters, k=size)) for _ in range(min(count, 300))]
    return [
        (dice.choice([number * spread, number]), hosts[number % 300], dice.choice(ports)) for number in range(count)
    ]


def _damaged(dice: Random, frame: bytes) -> bytes:
    data = bytearray(frame)
    for _ in range(dice.choice([0, 1, 3])):
        data[dice.randrange(len(data))] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)])
    return bytes(data[: dice.randrange(len(data))]) if dice.random() < 0.2 else bytes(data)


def _answer(dice: Random, correlation_id: int) -> bytes:
    kind = dice.randrange(6)
    if kind <= 2:
        more = dice.choice([b"", b"", b"a" * 200_000, b"\x01a\0\0" * 20_000, bytes(2_000_000)])
        frame = hostile.metadata(correlation_id, _nodes(dice), more)
        return _damaged(dice, frame) if dice.random() < 0.3 else frame
    if kind == 3:
        return dice.randbytes(dice.randrange(200))
    if kind == 4:
        return hostile.framed(
            struct.pack(">i", correlation_id) + bytes([dice.randrange(256)]) * dice.randrange(100_000)
        )
    frame = dice.choice(ANSWERS)
    return _damaged(dice, frame[:4] + correlation_id.to_bytes(4, "big") + frame[8:])


class Liar:
    """The broker's answers. All of them are made beforehand, so that threads cannot change what an input is."""

    def __init__(self, dice: Random) -> None:
        self._answers = [_answer(dice, 0) for _ in range(4)]
        self._how = [dice.randrange(4) for _ in range(4)]

    def __call__(self, _key: int, _version: int, correlation_id: int) -> Iterable[bytes]:
        which = correlation_id % len(self._answers)
        answer = self._answers[which]
        answer = answer[:4] + correlation_id.to_bytes(4, "big", signed=True) + answer[8:]
        if self._how[which] == 0 and len(answer) < 3000:
            return (answer[at : at + 1] for at in range(len(answer)))
        return (answer * 3,) if self._how[which] == 1 else (answer,)


def _asks(dice: Random) -> tuple[bytes, bool]:
    """What a client says: requests for addresses, others, or nothing whole; and whether it can read the answers."""
    kind = dice.randrange(5)
    if kind == 0:
        return dice.randbytes(dice.randrange(30)), False
    if kind == 1:
        return _damaged(dice, dice.choice(REQUESTS)), False
    many = range(dice.choice([1, 5, 5000]) if kind == 2 else 4)
    version = hostile.METADATA_VERSION if kind > 2 else dice.randrange(14)
    asked = b"".join(hostile.request(hostile.METADATA, version, number) for number in many)
    return asked, version == hostile.METADATA_VERSION


@contextlib.contextmanager
def _relay(liar: hostile.Broker, honest: hostile.Broker) -> Iterator[RelayProcess]:
    ports = free_ports(2)
    settings = Settings(
        upstream=upstream(liar.address),
        listen_port=ports[0],
        probe=False,
        scratch=16 << 20,
        memory_max=MEMORY,
        max_connections=CONNECTIONS,
        max_listeners=LISTENERS,
        name="east",
        more=(Cluster("west", upstream(honest.address), "127.0.0.1", ports[1]),),
    )
    with (
        tempfile.TemporaryDirectory() as directory,
        mock.patch.dict(os.environ, homes(Path(directory))),
        RelayProcess(settings) as relay,
    ):
        yield relay


def _drain(client: socket.socket, *, readable: bool) -> None:
    """Reads some answers. Those that a client would take, one to a request, are checked where they are `readable`."""
    client.settimeout(0.2)
    taken = set()
    with contextlib.suppress(TimeoutError, OSError):
        for _ in range(8):
            answer = hostile.frame(client, LONGEST)
            if not answer:
                return
            if readable and answer[4:8] not in taken:
                taken.add(answer[4:8])
                _check(answer)


def _check(answer: bytes) -> None:
    """An answer to Metadata v1 without topics, where it is one to the last byte, names no host but the proxy's.

    What Kafka cannot read passes as it came, so a damaged length, a rack's for example, must end the check.
    """
    try:
        told = hostile.told(answer)
    except struct.error:
        return
    whole = hostile.metadata(0, [(node, *address) for node, address in told.items()])
    if _without_ids(answer) == _without_ids(whole):
        assert all(not host or host == b"127.0.0.1" for host, _ in told.values()), "a broker's own address"


def _without_ids(answer: bytes) -> bytes:
    """What follows the correlation id, without the controller's id before the (empty) list of topics."""
    return answer[8:-8] + answer[-4:]


def once(dice: Random) -> None:
    with (
        hostile.Broker() as honest,
        hostile.Broker(Liar(dice)) as liar,
        _relay(liar, honest) as relay,
        contextlib.ExitStack() as clients,
    ):
        waiting = hostile.Waiting(relay.clusters["west"])
        clients.callback(waiting.close)
        waiting.await_answers()
        taken = hostile.Taken(relay.pid)
        before = taken.memory
        for _ in range(dice.choice([1, 4, 40])):
            client = clients.enter_context(hostile.connect(relay.clusters["east"]))
            client.settimeout(0.3)
            asked, readable = _asks(dice)
            with contextlib.suppress(OSError):
                client.sendall(asked)
                if dice.random() < 0.1:
                    client.shutdown(socket.SHUT_WR)
            if dice.random() < 0.3:
                _drain(client, readable=readable)
        waiting.await_answers()
        assert taken.listeners <= LISTENERS + 2, "listeners"
        assert taken.descriptors <= MOST_FILES, "descriptors"
        assert taken.memory < before + MOST_MEMORY, f"memory: {taken.memory - before}"
        relay.command("status")
        if dice.random() < 0.8:  # else ending them is left to the relay, which gives them some seconds
            clients.close()
        relay.command("stop")
        assert relay._process.wait(hostile.SECONDS) == 0, "it does not end well"
