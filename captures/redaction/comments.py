"""Packet comments without what they quote: what kproxy says of a frame keeps its form, other people's words go."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.conversation.comments import CHANGED, LEAKED

WITHHELD: Final = "(withheld)"


def withheld(comment: str) -> str:
    """A comment line by line: fields that kproxy changed without their values, its warnings without the address."""
    return "\n".join(_lines(comment))


def without_address(message: str) -> str:
    """A line of kproxy's without the broker's address that it tells; any other line as it is."""
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
    """The path that a line of a change begins with; nothing of it where it is none."""
    path = line.partition(": ")[0]
    return path if all(part.isidentifier() or not part for part in _parts(path)) else WITHHELD


def _parts(path: str) -> list[str]:
    return path.replace("[", ".").replace("]", "").translate(str.maketrans("", "", "0123456789")).split(".")
