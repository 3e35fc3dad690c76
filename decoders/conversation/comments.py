"""The packet comments that kproxy writes about frames, and the problems that such comments report."""

from __future__ import annotations

from kproxy.decoders.problems import Code, Problem

CHANGED = "changed by kproxy"
"""First line of a comment on changes; further lines hold path, old value and new value."""
LEAKED = "kproxy let pass a broker's own address:"
"""Beginning of the line on a leaked broker address; the address follows."""
WITHHELD = "kproxy withheld this from the client:"
"""Beginning of the line on a withheld response; the reason follows."""

MADE = f"{CHANGED}: it answered this request itself, the broker never saw it:"
"""First line of the comment on a response that kproxy made; further lines hold rule and reason.

It begins like CHANGED, so that the exchange counts as modified.
"""
ACTED = "kproxy acted on this on its way to the"
"""Beginning of the line before what rules or actors did with a frame that went on; the receiver follows."""
KEPT = "kproxy did not forward this to the"
"""Beginning of the line before the reasons why a frame did not go on; the receiver follows."""


def problems(comment: str, where: str) -> list[Problem]:
    if LEAKED not in comment:
        return []
    lines = [line for line in comment.splitlines() if line.startswith(LEAKED)]
    return [Problem(where, 0, "", line, Code.ADDRESS_LEAKED) for line in lines]
