"""The names of capture files."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

COMPRESSED: Final = frozenset({".gz", ".zst", ".lz4", ".xz"})
CAPTURES: Final = frozenset({".pcap", ".pcapng", ".cap", ".dmp"})
"""Suffixes of the names of capture files; one of COMPRESSED may follow."""


def stem_of(name: str) -> str:
    """A capture's file name without its suffixes: "kafka-3.9.2" for "kafka-3.9.2.pcap.gz"."""
    return _without(_without(name, COMPRESSED), CAPTURES).lstrip(".") or "part"


def is_capture_name(name: str) -> bool:
    """Whether a file with this name seems to be a capture."""
    return PurePath(_without(name, COMPRESSED)).suffix.lower() in CAPTURES


def _without(name: str, suffixes: frozenset[str]) -> str:
    suffix = PurePath(name).suffix
    return name.removesuffix(suffix) if suffix.lower() in suffixes else name
