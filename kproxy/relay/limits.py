"""Limits on the relay's connections and listeners, and on the bytes that wait for a slow reader."""

from __future__ import annotations

import resource
from dataclasses import dataclass

RESERVED_FILES = 64
"""File descriptors kept for the recording, the control socket and bootstrap listeners."""
ACCEPTED_AT_ONCE = 1024
"""Connections that the event loop may accept before the relay can refuse the first of them."""
FILES_PER_CONNECTION = 2
MOST_PER_LISTENER = 2
"""File descriptors of a listener: one for each address that it listens on, usually one or two."""
LEAST_HIGH_WATER, MOST_HIGH_WATER = 64 << 10, 1 << 20


def _open_files() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if files == resource.RLIM_INFINITY else files


def _spare(files: int) -> int:
    """File descriptors available for connections and nodes' listeners."""
    return max(files - RESERVED_FILES - min(ACCEPTED_AT_ONCE, files // 8), 0)


@dataclass(frozen=True, slots=True)
class Share:
    """The limits of one cluster's listeners."""

    nodes: int
    """Most nodes that get a listener."""
    files: int
    """Most file descriptors that these listeners may take."""
    files_reason: str
    """Where `files` comes from, in words for messages."""

    @classmethod
    def of(cls, nodes: int, clusters: int = 1) -> Share:
        """The share of each of `clusters`; all together get at most a quarter of the available descriptors."""
        files = _open_files()
        each = min(nodes * MOST_PER_LISTENER, _spare(files) // 4 // clusters)
        return cls(nodes, each, f"the limit of {files} open files")


class Room:
    """Limit on open connections; `reason` says where the limit comes from, `refused` counts connections over it."""

    def __init__(self, most: int, reason: str) -> None:
        self.most = most
        self.reason = reason
        self.taken = 0
        self.refused = 0

    @classmethod
    def of(cls, asked: int | None, listeners: int = 0) -> Room:
        """The limit asked for, reduced to what the process's file descriptors allow without those for listeners."""
        files = _open_files()
        possible = max((_spare(files) - listeners) // FILES_PER_CONNECTION, 1)
        if asked is not None and asked <= possible:
            return cls(asked, f"--max-connections {asked}")
        return cls(possible, f"the limit of {files} open files")

    def take(self) -> bool:
        """Takes room for one connection; returns False if there is none."""
        if self.taken >= self.most:
            self.refused += 1
            return False
        self.taken += 1
        return True

    def give(self) -> None:
        self.taken -= 1


def high_water(memory: int, connections: int) -> int:
    """Bytes that may wait for one slow reader before reading from the sender pauses: a bounded share of `memory`."""
    return max(LEAST_HIGH_WATER, min(MOST_HIGH_WATER, memory // (2 * max(connections, 1))))
