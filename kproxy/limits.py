"""How many connections the relay takes, and how much of each it keeps for a slow reader."""

from __future__ import annotations

import resource

RESERVED_FILES = 64
"""For listeners, the recording, the control socket."""
ACCEPTED_AT_ONCE = 1024
"""Connections that the event loop may have accepted before it is asked about the first of them."""
FILES_PER_CONNECTION = 2
LEAST_HIGH_WATER, MOST_HIGH_WATER = 64 << 10, 1 << 20


class Room:
    """Room for so many connections; `reason` says what sets the bound, `refused` counts who found none."""

    def __init__(self, most: int, reason: str) -> None:
        self.most = most
        self.reason = reason
        self.taken = 0
        self.refused = 0

    @classmethod
    def of(cls, asked: int | None) -> Room:
        """What is asked for, as far as this process's file descriptors go."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files == resource.RLIM_INFINITY:
            files = 1 << 30
        reserved = RESERVED_FILES + min(ACCEPTED_AT_ONCE, files // 8)
        possible = max((files - reserved) // FILES_PER_CONNECTION, 1)
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
