"""A mergeable histogram of logarithmic buckets, with fixed memory and percentiles within 1 %.

Values below 128 have a bucket each. From 128 on, every octave (values from 2**n to 2**(n+1)) has 64 buckets. So the
width of a bucket is at most 1/64 of its values, and its middle differs by at most 1/128 (0.8 %) from any of them.
"""

from __future__ import annotations

from array import array

_FINE_BITS = 6
_FINE = 1 << _FINE_BITS
_EXACT = 2 * _FINE
_OCTAVES = 63 - _FINE_BITS
_BUCKETS = _FINE * (_OCTAVES + 1)

RELATIVE_ERROR = 1 / _EXACT
"""Largest relative error of a percentile."""


def bucket_of(value: int) -> int:
    if value < _EXACT:
        return max(value, 0)
    shift = value.bit_length() - _FINE_BITS - 1
    return min((shift << _FINE_BITS) + (value >> shift), _BUCKETS - 1)


def middle_of(bucket: int) -> int:
    if bucket < _EXACT:
        return bucket
    shift = (bucket >> _FINE_BITS) - 1
    low = (bucket - (shift << _FINE_BITS)) << shift
    return low + (1 << shift) // 2


class Histogram:
    """A histogram of integers (nanoseconds, bytes); a negative one counts as 0, one above 2**63 as 2**63."""

    __slots__ = ("_buckets", "count", "largest", "smallest", "total")

    def __init__(self) -> None:
        self._buckets = array("Q", bytes(8 * _BUCKETS))
        self.count = 0
        self.total = 0
        self.smallest: int | None = None
        self.largest: int | None = None

    def add(self, value: int) -> None:
        self._buckets[bucket_of(value)] += 1
        self.count += 1
        self.total += value
        if self.smallest is None or value < self.smallest:
            self.smallest = value
        if self.largest is None or value > self.largest:
            self.largest = value

    def merge(self, other: Histogram) -> None:
        """Add the counts of `other`."""
        if other.smallest is None or other.largest is None:
            return
        for bucket, count in enumerate(other._buckets):
            if count:
                self._buckets[bucket] += count
        self.count += other.count
        self.total += other.total
        self.smallest = other.smallest if self.smallest is None else min(self.smallest, other.smallest)
        self.largest = other.largest if self.largest is None else max(self.largest, other.largest)

    def percentile(self, share: float) -> int | None:
        """The smallest counted value that at least `share` (0 to 1) of all values do not exceed; None without values.

        Exact for the smallest and the largest value, otherwise within `RELATIVE_ERROR`.
        """
        if self.smallest is None or self.largest is None:
            return None
        wanted = max(1, min(self.count, -int(-share * self.count // 1)))
        if wanted == self.count:
            return self.largest
        seen = 0
        for bucket, count in enumerate(self._buckets):
            seen += count
            if seen >= wanted:
                return min(max(middle_of(bucket), self.smallest), self.largest)
        return self.largest
