"""Finds where frames begin and end in the bytes of one direction."""

from __future__ import annotations

LENGTH = 4


class Frames:
    """Splits one direction into frames. `lost` becomes True at a negative length, after which no frames are found.

    `head` is the number of bytes at each frame's start that `feed` returns, the length field included.
    """

    __slots__ = ("_head", "_rest", "_wanted", "lost")

    def __init__(self, head: int) -> None:
        self._wanted = head
        self._head = b""
        self._rest = 0
        self.lost = False

    @property
    def between(self) -> bool:
        """Whether the next byte begins a frame."""
        return not self._rest and not self._head

    def feed(self, data: bytes | memoryview) -> list[tuple[int, bytes]]:
        """Takes bytes; returns (offset of the frame in `data`, first bytes of the frame) for each frame.

        A frame is returned when `head` of its bytes have arrived, or all if it is shorter. The offset is negative if
        the frame began in earlier data.
        """
        heads = []
        at, size = 0, len(data)
        while at < size and not self.lost:
            if self._rest:
                passed = min(self._rest, size - at)
                self._rest -= passed
                at += passed
                continue
            wanted = LENGTH
            if len(self._head) >= LENGTH:
                wanted = min(self._wanted, LENGTH + int.from_bytes(self._head[:LENGTH], "big"))
            piece = bytes(data[at : at + wanted - len(self._head)])
            self._head += piece
            at += len(piece)
            if len(self._head) < LENGTH:
                continue
            length = int.from_bytes(self._head[:LENGTH], "big", signed=True)
            if length < 0:
                self.lost = True
            elif len(self._head) >= min(self._wanted, LENGTH + length):
                heads.append((at - len(self._head), self._head))
                self._rest = LENGTH + length - len(self._head)
                self._head = b""
        return heads

    def boundary(self, data: bytes | memoryview) -> int | None:
        """The number of bytes of `data` that complete the current frame; None if the frame goes on after `data`."""
        left = self._rest
        if self._head:
            start = self._head + bytes(data[: LENGTH - len(self._head)]) if len(self._head) < LENGTH else self._head
            if len(start) < LENGTH:
                return None
            left = LENGTH + int.from_bytes(start[:LENGTH], "big", signed=True) - len(self._head)
        return left if 0 <= left <= len(data) else None
