"""Follows where frames begin and end in one direction."""

from __future__ import annotations

LENGTH = 4


class Frames:
    """Splits one direction into frames; `lost` is True once a length is negative.

    `head` is the number of bytes of each frame that `feed` returns, its length field included.
    """

    __slots__ = ("_head", "_rest", "_wanted", "lost")

    def __init__(self, head: int) -> None:
        self._wanted = head
        self._head = b""
        self._rest = 0
        self.lost = False

    @property
    def between(self) -> bool:
        """Whether the last byte was the end of a frame, or nothing has passed yet."""
        return not self._rest and not self._head

    def feed(self, data: bytes | memoryview) -> list[tuple[int, bytes]]:
        """Takes bytes; returns (offset of the frame in these bytes, head) for each head that they complete.

        The offset is negative if the frame began before these bytes. A frame shorter than a head is returned whole.
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
        """How many of the next bytes complete the current frame; None if the frame goes on after them."""
        left = self._rest
        if self._head:
            start = self._head + bytes(data[: LENGTH - len(self._head)]) if len(self._head) < LENGTH else self._head
            if len(start) < LENGTH:
                return None
            left = LENGTH + int.from_bytes(start[:LENGTH], "big", signed=True) - len(self._head)
        return left if 0 <= left <= len(data) else None
