"""What can be fuzzed: a name, and where the function is.

A target is a function of one `random.Random`: it makes one input of it, and raises AssertionError, or anything else,
where the invariant of its module docstring does not hold. To add one, add a line.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from random import Random

Target = Callable[[Random], None]

TARGETS = {
    "captures": "tests.fuzz.captures:once",
    "conversation": "tests.fuzz.conversation:once",
    "dialects": "tests.fuzz.dialects:once",
    "filters": "tests.fuzz.filters:once",
    "findings": "tests.fuzz.findings:once",
    "hostile": "tests.fuzz.hostile:once",
    "keys": "tests.fuzz.keys:once",
    "payloads": "tests.fuzz.payloads:once",
    "segments": "tests.fuzz.segments:once",
    "splits": "tests.fuzz.splits:once",
    "tls": "tests.fuzz.tls:once",
}


def load(name: str) -> Target:
    """The target of that name; raises KeyError where there is none."""
    module, _, function = TARGETS[name].partition(":")
    target: Target = getattr(import_module(module), function)
    return target
