"""The packet comments that kproxy writes about frames, and the problems that such comments report."""

from __future__ import annotations

from kproxy.decoders.problems import Code, Problem

CHANGED = "changed by kproxy"
"""First line of a comment on changes; further lines hold path, old value and new value."""
LEAKED = "kproxy let pass a broker's own address:"
"""Beginning of the line that reports a leaked broker address; the address comes after it."""
WITHHELD = "kproxy withheld this from the client:"
"""Beginning of the line that reports a withheld response; the reason comes after it."""

MADE = f"{CHANGED}: it answered this request itself, the broker never saw it:"
"""First line of the comment on a response that kproxy made; further lines hold rule and reason.

It begins like CHANGED, so that the exchange counts as modified.
"""
ACTED = "kproxy acted on this on its way to the"
"""Beginning of the line above the actions of rules or actors on a forwarded frame; the receiver comes after it."""
KEPT = "kproxy did not forward this to the"
"""Beginning of the line above the reasons why a frame was not forwarded; the receiver comes after it."""


def problems(comment: str, where: str) -> list[Problem]:
    if LEAKED not in comment:
        return []
    lines = [line for line in comment.splitlines() if line.startswith(LEAKED)]
    return [Problem(where, 0, "", line, Code.ADDRESS_LEAKED) for line in lines]
