"""What applications do with their clients, each a program of its own.

Arguments: bootstrap servers, a name for topics and groups, copies of each partition, then any of "modern" (the broker
is not of the ZooKeeper era). A program says "open" when all is done and every connection still stands, and ends when a
line comes in. A call that fails ends it with a traceback.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 30
"""Seconds for news of a topic to reach the brokers."""


@dataclass(frozen=True)
class Task:
    bootstrap: str
    name: str
    copies: int
    modern: bool

    @classmethod
    def from_arguments(cls) -> Self:
        bootstrap, name, copies, *flags = sys.argv[1:]
        return cls(bootstrap, name, int(copies), "modern" in flags)


def until_asked() -> None:
    """Hold the connections until somebody has looked at them."""
    print("open", flush=True)
    if not sys.stdin.readline():
        raise EOFError("nobody asked for the end")


def looks(what: str) -> Iterator[None]:
    """Turns of a loop that asks again: a broker hears of a new topic a little after the controller."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        yield
        time.sleep(0.05)
    raise AssertionError(f"no broker knows {what} after {PATIENCE} s")
