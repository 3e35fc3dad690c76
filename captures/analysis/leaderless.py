"""The numbers that stand for a leader where a partition has none."""

from typing import Final

NOBODY: Final = -1
DELETED: Final = -2
"""Leader of a partition whose topic is being deleted, in control requests (LeaderAndIsr.LeaderDuringDelete)."""
