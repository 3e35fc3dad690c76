"""Packet comments that kproxy writes about a frame, and the problems that they report."""

from __future__ import annotations

from kproxy.decoders.problems import Code, Problem

CHANGED = "changed by kproxy"
"""First line of a comment about changes; lines of path, old and new value follow."""
LEAKED = "kproxy let pass a broker's own address:"
"""Prefix of a line about a leaked address; the address follows."""
WITHHELD = "kproxy withheld this from the client:"
"""Prefix of a line about a withheld response; the reason follows."""


def problems(comment: str, where: str) -> list[Problem]:
    if LEAKED not in comment:
        return []
    lines = [line for line in comment.splitlines() if line.startswith(LEAKED)]
    return [Problem(where, 0, "", line, Code.ADDRESS_LEAKED) for line in lines]
