"""Records of every shape, for clients to send."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

TIME = 1_700_000_000_000

Header = tuple[str, bytes | None]


@dataclass(frozen=True)
class Shape:
    """What a producer is asked to send."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    time: int


def shapes(codec: str, *, headers: bool = True) -> Iterator[Shape]:
    """Records with null and empty keys and values, repeated header keys and null header values."""
    for number in range(40):
        key = None if number % 4 == 0 else b"" if number % 4 == 1 else b"key %d" % number
        value = None if number % 8 == 3 else f"{codec} {'é漢' * number}{number}".encode()
        some = [("repeated", b"%d" % number), ("repeated", b""), ("null", None)][: number % 4] if headers else []
        yield Shape(key, value, tuple(some), TIME + number)
