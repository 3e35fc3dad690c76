"""The packet comments that kproxy writes about frames, and the problems that such comments report."""

from __future__ import annotations

from kproxy.decoders.problems import Code, Problem

CHANGED = "changed by kproxy"
"""First line of a comment on changes; further lines hold path, old value and new value."""
LEAKED = "kproxy let pass a broker's own address:"
"""Beginning of the line on a leaked broker address; the address follows."""
WITHHELD = "kproxy withheld this from the client:"
"""Beginning of the line on a withheld response; the reason follows."""


def problems(comment: str, where: str) -> list[Problem]:
    if LEAKED not in comment:
        return []
    lines = [line for line in comment.splitlines() if line.startswith(LEAKED)]
    return [Problem(where, 0, "", line, Code.ADDRESS_LEAKED) for line in lines]
