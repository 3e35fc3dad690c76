"""Numbers with their noun and verb in messages: "1 byte is missing", "2 bytes are missing"."""

from __future__ import annotations

_WITH_ES = ("ch", "sh", "s", "x")


def counted(count: int, noun: str, spec: str = "") -> str:
    """The number with its noun: "1 byte", "2 batches"; `spec` is the number's format ("," separates thousands)."""
    plural = "es" if noun.endswith(_WITH_ES) else "s"
    return f"{count:{spec}} {noun}{'' if count == 1 else plural}"


def are(count: int) -> str:
    """The verb for this number: "is" for 1, else "are"."""
    return "is" if count == 1 else "are"


def were(count: int) -> str:
    """The verb for this number: "was" for 1, else "were"."""
    return "was" if count == 1 else "were"
