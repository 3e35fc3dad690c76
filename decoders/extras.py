"""Tells how to install the packages that only some tasks need: the extras of kafka-kproxy in pyproject.toml."""

from __future__ import annotations


def installing(extra: str) -> str:
    """The command that installs an extra, or several that are separated by commas."""
    return f"pip install 'kafka-kproxy[{extra}]'"
