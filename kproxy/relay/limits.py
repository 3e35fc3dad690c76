"""How many connections and listeners the relay has, and how much of each connection it keeps for a slow reader."""

from __future__ import annotations

import resource
from dataclasses import dataclass

RESERVED_FILES = 64
"""For the recording, the control socket, bootstrap listeners."""
ACCEPTED_AT_ONCE = 1024
"""Connections that the event loop may have accepted before it is asked about the first of them."""
FILES_PER_CONNECTION = 2
MOST_PER_LISTENER = 2
"""Descriptors of a listener: one for each address that it listens on, usually one or two."""
LEAST_HIGH_WATER, MOST_HIGH_WATER = 64 << 10, 1 << 20


def _open_files() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if files == resource.RLIM_INFINITY else files


def _spare(files: int) -> int:
    """Descriptors for connections and for nodes' listeners."""
    return max(files - RESERVED_FILES - min(ACCEPTED_AT_ONCE, files // 8), 0)


@dataclass(frozen=True, slots=True)
class Share:
    """How many nodes of one cluster are listened for, with how many descriptors; `files_reason` says whence these."""

    nodes: int
    files: int
    files_reason: str

    @classmethod
    def of(cls, nodes: int, clusters: int = 1) -> Share:
        """The share of each of so many clusters: all of them together get a quarter of the descriptors at most."""
        files = _open_files()
        each = min(nodes * MOST_PER_LISTENER, _spare(files) // 4 // clusters)
        return cls(nodes, each, f"the limit of {files} open files")


class Room:
    """Room for so many connections; `reason` says what sets the bound, `refused` counts who found none."""

    def __init__(self, most: int, reason: str) -> None:
        self.most = most
        self.reason = reason
        self.taken = 0
        self.refused = 0

    @classmethod
    def of(cls, asked: int | None, listeners: int = 0) -> Room:
        """What is asked for, as far as this process's file descriptors go beside those that listeners may take."""
        files = _open_files()
        possible = max((_spare(files) - listeners) // FILES_PER_CONNECTION, 1)
        if asked is not None and asked <= possible:
            return cls(asked, f"--max-connections {asked}")
        return cls(possible, f"the limit of {files} open files")

    def take(self) -> bool:
        """Whether there was room for one more."""
        if self.taken >= self.most:
            self.refused += 1
            return False
        self.taken += 1
        return True

    def give(self) -> None:
        self.taken -= 1


def high_water(memory: int, connections: int) -> int:
    """Bytes that may wait for one slow reader before the sender is read no more: a share of `memory`, within bounds."""
    return max(LEAST_HIGH_WATER, min(MOST_HIGH_WATER, memory // (2 * max(connections, 1))))
