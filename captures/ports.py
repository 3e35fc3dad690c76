"""Port ranges as users write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HIGHEST = 65_535


@dataclass(frozen=True, slots=True)
class Ports:
    """A set of ports, given as ranges; `in` tells whether a port is among them."""

    ranges: tuple[tuple[int, int], ...]

    def __contains__(self, port: int) -> bool:
        return any(low <= port <= high for low, high in self.ranges)

    def __str__(self) -> str:
        """The ranges as text, in the form that `parse` reads."""
        return ",".join(f"{low}-{high}" for low, high in self.ranges)

    @classmethod
    def of(cls, ranges: Sequence[range]) -> Ports:
        return cls(tuple((ports[0], ports[-1]) for ports in ranges if ports))

    @classmethod
    def parse(cls, text: str) -> Ports:
        """The ports of a text like "9092", "9092-9094" or "9092,19092-19095". Raises ValueError otherwise."""
        ranges = []
        for part in text.split(","):
            low, dash, high = (piece.strip() for piece in part.partition("-"))
            if not (low.isascii() and low.isdigit()) or (dash and not (high.isascii() and high.isdigit())):
                raise ValueError(f"{part.strip()!r} is not a port or range of ports (9092 or 9092-9094)")
            first, last = int(low), int(high) if dash else int(low)
            if not first <= last <= HIGHEST:
                raise ValueError(f"{part.strip()!r} is not a range of ports between 0 and {HIGHEST}")
            ranges.append((first, last))
        return cls(tuple(ranges))
