"""Completion of the names of files."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from kproxy.captures.export.text import size_text

MOST = 200


def split(text: str) -> tuple[list[str], str]:
    """The words of a line that are whole, and the one that is typed; quotes may be open in that."""
    for closing in ("", "'", '"'):
        try:
            words = shlex.split(text + closing)
        except ValueError:
            continue
        return (words[:-1], words[-1]) if words and not (not closing and text[-1:].isspace()) else (words, "")
    return [], text


def completions(typed: str) -> list[tuple[str, str]]:
    """Paths that begin with what is typed, and what they are: folders end with a slash. At most MOST."""
    folder, _, start = typed.rpartition("/")
    directory = Path(f"{folder}/" if "/" in typed else ".").expanduser()
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if not entry.name.startswith(start) or (entry.name.startswith(".") and not start.startswith(".")):
                    continue
                if not entry.name.isprintable():
                    continue
                path = f"{folder}/{entry.name}" if "/" in typed else entry.name
                if entry.is_dir():
                    found.append((f"{path}/", "folder"))
                else:
                    found.append((path, f"{size_text(entry.stat().st_size)}B"))
    except (OSError, RuntimeError):
        return []
    return sorted(found)[:MOST]


def quoted(path: str) -> str:
    """A path as a word of a line; the tilde stays what it is."""
    home, slash, rest = path.partition("/")
    return f"{home}{slash}{shlex.quote(rest) if rest else ''}" if home == "~" else shlex.quote(path)
