"""ARCHITECTURE.md names what is there, and is short."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACE = re.compile(r"(?<![\w/])(?:decoders|captures|kproxy|tui|tests|bench|tools|docs)(?:/\w+)+(?:\.\w+)?")
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_every_place_is_there() -> None:
    places = set(PLACE.findall(TEXT))
    assert len(places) > 60
    assert not [place for place in places if not (ROOT / place).exists()]


def test_it_is_read_in_a_quarter_of_an_hour() -> None:
    assert len(TEXT.split()) < 2_500
