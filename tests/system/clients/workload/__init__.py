"""All that applications do, in small, by each client: a program of its own each, as is Workload.java of tests/oracle.

Arguments: a file of client settings and a name for topics and groups. A program prints

- `sent TOPIC DIGEST`, or `aborted` for a record that no reader may see, as it sends;
- `steady` once all that goes without errors is done, and then waits for a line, with which a broker is killed;
- `survived` once it has sent and read past that, and then waits for a line: the broker is back;
- `read READER TOPIC DIGEST` for each record that was read, and `done`; its connections stand until a third line.

Its log goes to stderr, where each of these lines that it was given appears behind "--- ". A call that fails ends it
with a traceback.
"""

from __future__ import annotations

import hashlib
import json
import logging
import struct
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3
COPIES = 3
PATIENCE = 180
"""Seconds."""

T = TypeVar("T")
Header = tuple[str, bytes | None]

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Access:
    """How brokers are reached; without `protocol` SSL `ca` is not used, without SASL `user` is not."""

    bootstrap: str
    protocol: str = "PLAINTEXT"
    ca: str = ""
    certificate: str = ""
    key: str = ""
    user: str = ""
    password: str = ""
    mechanism: str = "SCRAM-SHA-512"

    @property
    def encrypted(self) -> bool:
        return "SSL" in self.protocol

    @property
    def authenticated(self) -> bool:
        return self.protocol.startswith("SASL")

    def ssl_context(self) -> object:
        import ssl

        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key)
        return context


@dataclass(frozen=True)
class Record:
    topic: str
    """Without the name of the run."""
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]

    @classmethod
    def made(cls, topic: str, kind: str, number: int, *, null_headers: bool = True) -> Self:
        """Values differ within a topic; null and empty keys, repeated headers, one without value."""
        key = None if number % 4 == 0 else b"" if number % 4 == 1 else b"key %d" % number
        headers: list[Header] = []
        if number % 2:
            headers = [("repeated", b"%d" % number), ("repeated", b"")]
            headers += [("null", None)] if null_headers else []
        value = f"{kind} {number} {'é漢' * number}".encode()
        return cls(topic, number % PARTITIONS, key, value, tuple(headers))

    def digest(self) -> str:
        """Of all that a reader gets: the parts with their lengths before them (-1 of null), SHA-256's first 8 bytes."""
        parts: list[bytes | None] = [self.topic.encode(), b"%d" % self.partition, self.key, self.value]
        for name, content in self.headers:
            parts += [name.encode(), content]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(struct.pack(">i", -1 if part is None else len(part)))
            digest.update(part or b"")
        return digest.hexdigest()[:16]


class Run:
    """What a program was told to do, and what it notes of the records."""

    def __init__(self) -> None:
        file, self.name = sys.argv[1:]
        self.access = Access(**json.loads(Path(file).read_text()))
        self._wanted: Counter[str] = Counter()
        self._read: dict[tuple[str, str], dict[tuple[int, int], str]] = defaultdict(dict)
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s - %(message)s")

    def full(self, topic: str) -> str:
        return f"{self.name}-{topic}"

    def records(
        self, topic: str, kind: str, numbers: Iterable[int], *, aborted: bool = False, null_headers: bool = True
    ) -> Iterator[Record]:
        """Records to send, noted one by one."""
        for number in numbers:
            record = Record.made(topic, kind, number, null_headers=null_headers)
            self._wanted[topic] += not aborted
            print("aborted" if aborted else "sent", topic, record.digest(), flush=True)
            yield record

    def take(
        self,
        reader: str,
        topic: str,
        partition: int,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] | None,
    ) -> None:
        """Note what was read; raises AssertionError where there was something else before."""
        short = topic.removeprefix(f"{self.name}-")
        digest = Record(short, partition, key, value, tuple(headers or ())).digest()
        before = self._read[reader, short].setdefault((partition, offset), digest)
        assert before == digest, f"another record than before at {offset}"

    def all(self, reader: str, topic: str) -> bool:
        return len(self._read[reader, topic]) >= self._wanted[topic]

    def tell(self) -> None:
        for (reader, topic), found in self._read.items():
            for digest in found.values():
                print("read", reader, topic, digest)


def stage(word: str) -> None:
    print(word, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        raise EOFError("nobody goes on")
    print("---", answer.strip(), file=sys.stderr, flush=True)


def until_committed(
    members: Iterable[T], commit: Callable[[T], object], moving: Callable[[Exception], bool], poll: Callable[[], None]
) -> None:
    """Commits where each member is. What it raises may say that the group is `moving`: polling ends that."""

    def committed(member: T) -> bool:
        try:
            commit(member)
        except Exception as error:
            if not moving(error):
                raise
            LOG.warning("rebalance: %r", error)
            poll()
            return False
        return True

    for member in members:
        until(partial(committed, member), "positions are committed")


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
