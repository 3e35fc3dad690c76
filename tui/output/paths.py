"""Completion of file names."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from kproxy.captures.text import size_text

MOST = 200


def split(text: str) -> tuple[list[str], str]:
    """The complete words of a line, and the last one, which is being typed and may have an open quote."""
    for closing in ("", "'", '"'):
        try:
            words = shlex.split(text + closing)
        except ValueError:
            continue
        return (words[:-1], words[-1]) if words and not (not closing and text[-1:].isspace()) else (words, "")
    return [], text


def completions(typed: str) -> list[tuple[str, str]]:
    """At most MOST paths that begin with what is typed, each with its size or "folder"; folders end with a slash."""
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
    """A path quoted as a word of a line; a leading tilde keeps its meaning."""
    home, slash, rest = path.partition("/")
    return f"{home}{slash}{shlex.quote(rest) if rest else ''}" if home == "~" else shlex.quote(path)
