"""What applications do with their clients, each a program of its own.

Arguments: bootstrap servers, a name for topics and groups, copies of each partition, then any of "modern" (the broker
is not of the ZooKeeper era). A program says "open" when all is done and every connection still stands, and ends when a
line comes in. A call that fails ends it with a traceback.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Self


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
