"""Redacts packet comments: kproxy's own lines lose the values that they quote, all other lines become "(withheld)"."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.conversation.comments import CHANGED, LEAKED

WITHHELD: Final = "(withheld)"


def withheld(comment: str) -> str:
    """A comment redacted line by line: lines about changed fields lose the values, warnings lose the address, all other
    lines become "(withheld)".
    """
    return "\n".join(_lines(comment))


def without_address(message: str) -> str:
    """A warning of kproxy without the broker's address in it; any other line unchanged."""
    return f"{LEAKED} {WITHHELD}" if message.startswith(LEAKED) else message


def _lines(comment: str) -> list[str]:
    changed, found = False, []
    for line in comment.splitlines():
        if line.startswith(CHANGED) and line.endswith(":"):
            changed = True
            found.append(f"{CHANGED}:")
        elif line.startswith(LEAKED):
            found.append(without_address(line))
        elif changed and " -> " in line:
            found.append(f"{_path(line)}: {WITHHELD}")
        else:
            found.append(WITHHELD)
    return found


def _path(line: str) -> str:
    """The field path at the start of a line about a changed field; "(withheld)" if the line begins otherwise."""
    path = line.partition(": ")[0]
    return path if all(part.isidentifier() or not part for part in _parts(path)) else WITHHELD


def _parts(path: str) -> list[str]:
    return path.replace("[", ".").replace("]", "").translate(str.maketrans("", "", "0123456789")).split(".")
