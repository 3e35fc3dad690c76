"""What kproxy says of a frame in a packet comment, line by line, and the problems in it."""

from __future__ import annotations

from kproxy.decoders.problems import Code, Problem

CHANGED = "changed by kproxy"
"""Such a comment begins so; lines of path, old and new value follow."""
LEAKED = "kproxy let pass a broker's own address:"
"""Such a line begins so; the address follows."""
WITHHELD = "kproxy withheld this from the client:"
"""Such a line begins so; the reason follows."""


def problems(comment: str, where: str) -> list[Problem]:
    if LEAKED not in comment:
        return []
    lines = [line for line in comment.splitlines() if line.startswith(LEAKED)]
    return [Problem(where, 0, "", line, Code.ADDRESS_LEAKED) for line in lines]
