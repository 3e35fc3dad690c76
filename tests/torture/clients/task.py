"""What `kproxy torture` tells a client's program in its environment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

BOOTSTRAP = os.environ["KPROXY_BOOTSTRAP"]
ROLE = os.environ["KPROXY_ROLE"]
TOPIC = os.environ["KPROXY_TOPIC"]
GROUP = os.environ["KPROXY_GROUP"]
TRANSACTIONAL_ID = os.environ["KPROXY_TRANSACTIONAL_ID"]
RECORDS = int(os.environ["KPROXY_RECORDS"])
BATCH = 10
PARTITIONS = 3
REQUEST_MS = 4000
"""Request timeout of the clients."""
PAUSE_SECONDS = 0.3
"""Time between batches, so that a consumer's heartbeats and a producer's metadata fall between them."""


def batches() -> Iterator[list[tuple[int, str]]]:
    """Batches of (partition, value)."""
    for first in range(0, RECORDS, BATCH):
        yield [(number % PARTITIONS, str(number)) for number in range(first, min(first + BATCH, RECORDS))]
        time.sleep(PAUSE_SECONDS)


QUIET = 2
"""Polls in a row without records, after which a consumer that has seen all is at the end of the topic.

A member that has joined again may have gone back to the last committed offsets.
"""


class Seen:
    """The values that a consumer has read, each written to KPROXY_READ at once."""

    def __init__(self) -> None:
        self._file = Path(os.environ["KPROXY_READ"]).open("a", encoding="utf-8")  # noqa: SIM115 (until the end)
        self._values: set[str] = set()
        self._quiet = 0
        self._committed = False

    def add(self, value: bytes) -> None:
        text = value.decode()
        self._values.add(text)
        self._file.write(f"{text}\n")
        self._file.flush()

    def polled(self, count: int) -> bool:
        """Notes a poll and the number of its records; returns whether to commit now."""
        self._quiet = 0 if count else self._quiet + 1
        return count > 0 or (not self._committed and self._quiet >= QUIET)

    def committed(self, *, done: bool) -> None:
        """Notes whether the last commit went well."""
        self._committed = done

    @property
    def going_on(self) -> bool:
        """Whether there is more to read or to commit."""
        return len(self._values) < RECORDS or not self._committed or self._quiet < QUIET
