"""Errors about rules; each says what is wrong and where in the rule's text it is."""

from __future__ import annotations

from collections.abc import Sequence


class RuleError(ValueError):
    """A rule cannot be used; [start, end) is the part of `text` that the message is about."""

    def __init__(self, message: str, text: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.start = start
        self.end = end

    def lines(self, where: str = "") -> Sequence[str]:
        """The message, then the text with carets below the mistake."""
        from kproxy.decoders.filters import Result, Status

        first = f"{where}: {self.message}" if where else self.message
        pointer = Result(Status.ERROR, (self.start, self.end), "", (), None, 0).pointer(self.text)
        return (first, *pointer)

    def __str__(self) -> str:
        return "\n".join(self.lines())


class FaultsError(ValueError):
    """Rules cannot be used; the text says which, where and why, with carets below the mistake."""


class CannotError(Exception):
    """A rule or a decision cannot act on this frame; the text says why. The frame is kept as it is."""
