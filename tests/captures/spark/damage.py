"""Ways of damaging a capture: each is a function of packets and a Random that returns other packets."""

from __future__ import annotations

from tests.captures.spark.test_crossing import in_pieces, kept_alive, overlapping
from tests.captures.spark.test_damaged import (
    again,
    disordered,
    dropped,
    foreign,
    fragmented,
    later,
    repeated,
    tiny,
    wrapped,
)

DAMAGE = (
    dropped, overlapping, foreign, disordered, again, repeated, later, fragmented, wrapped, tiny, in_pieces, kept_alive,
)  # fmt: skip
