"""Limits on the relay's connections, its listeners, and the bytes that wait for a slow reader."""

from __future__ import annotations

import resource
from dataclasses import dataclass

RESERVED_FILES = 64
"""Number of file descriptors kept for the recording, the control socket, calls over HTTP and bootstrap listeners."""
ACCEPTED_AT_ONCE = 1024
"""Number of connections that the event loop may accept before the relay can refuse the first of them."""
FILES_PER_CONNECTION = 2
MOST_PER_LISTENER = 2
"""Maximum number of file descriptors of a listener: one for each address that it listens on, usually one or two."""
LEAST_HIGH_WATER, MOST_HIGH_WATER = 64 << 10, 1 << 20


def _open_files() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if files == resource.RLIM_INFINITY else files


def _spare(files: int) -> int:
    """Of `files` file descriptors, the number available for connections and the nodes' listeners."""
    return max(files - RESERVED_FILES - min(ACCEPTED_AT_ONCE, files // 8), 0)


@dataclass(frozen=True, slots=True)
class Share:
    """The limits on the listeners of one cluster."""

    nodes: int
    """Maximum number of nodes that get a listener."""
    files: int
    """Maximum number of file descriptors for these listeners."""
    files_reason: str
    """The reason for the limit `files`, as part of a message ("the limit of 1024 open files")."""

    @classmethod
    def of(cls, nodes: int, clusters: int = 1) -> Share:
        """The limits of each of `clusters` clusters; together they get at most a quarter of the free descriptors."""
        files = _open_files()
        each = min(nodes * MOST_PER_LISTENER, _spare(files) // 4 // clusters)
        return cls(nodes, each, f"the limit of {files} open files")


class Room:
    """Limits the number of open connections.

    `reason` names the origin of the limit for messages; `refused` counts connections that exceeded it.
    """

    def __init__(self, most: int, reason: str) -> None:
        self.most = most
        self.reason = reason
        self.taken = 0
        self.refused = 0

    @classmethod
    def of(cls, asked: int | None, listeners: int = 0) -> Room:
        """The limit `asked` for, reduced to the connections that the free file descriptors allow.

        With `asked` None, the limit is that number of connections; `listeners` is the number of descriptors kept for
        listeners.
        """
        files = _open_files()
        possible = max((_spare(files) - listeners) // FILES_PER_CONNECTION, 1)
        if asked is not None and asked <= possible:
            return cls(asked, f"--max-connections {asked}")
        return cls(possible, f"the limit of {files} open files")

    def take(self) -> bool:
        """Reserves room for one connection; returns False if there is none."""
        if self.taken >= self.most:
            self.refused += 1
            return False
        self.taken += 1
        return True

    def give(self) -> None:
        self.taken -= 1


def high_water(memory: int, connections: int) -> int:
    """How many bytes may wait for one slow reader before kproxy stops reading from the sender.

    The result is the share of each of `connections` in `memory` bytes, within bounds.
    """
    return max(LEAST_HIGH_WATER, min(MOST_HIGH_WATER, memory // (2 * max(connections, 1))))
