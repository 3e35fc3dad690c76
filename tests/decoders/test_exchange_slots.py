"""exchange.pxd agrees with exchange.py: compiled code accesses memory by it."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kproxy.decoders import exchange
from kproxy.decoders.exchange import Exchange, Frame

TYPES = Path(exchange.__file__).with_suffix(".pxd").read_text()
each = pytest.mark.parametrize("of", [Frame, Exchange])


def found(pattern: str, of: type) -> list[list[str]]:
    """Names in each match of a pattern, in which CLASS is the name of a class and FUNCTION that of its constructor."""
    pattern = pattern.replace("CLASS", of.__name__).replace("FUNCTION", of.__name__.lower())
    texts = re.findall(pattern, TYPES, re.DOTALL)
    return [re.findall(r"\b(?!PyObject\b|object\b|cdef\b|list\b|SET\b)\w+", text) for text in texts]


@each
def test_slots_lie_where_c_looks_for_them(of: Any) -> None:
    (order,) = found(r"PyObject_HEAD([^}]*)} CLASSObject;", of)
    made = of(*(object() for _ in fields(of)))
    slots = (ctypes.c_void_p * len(order)).from_address(id(made) + object.__basicsize__)
    assert list(slots) == [id(getattr(made, name)) for name in order]
    assert of.__basicsize__ == object.__basicsize__ + ctypes.sizeof(slots)
    (read,) = found(r"ctypedef class [\w.]*\.CLASS [^:]*:\n((?: {8}cdef [^\n]*\n)+)", of)
    assert sorted(read) == sorted(order) == sorted(one.name for one in fields(of))


@each
def test_what_is_made_has_all_fields_in_their_order(of: Any) -> None:
    order = [one.name for one in fields(of)]
    declared = [names[1:] for names in found(r"decoders_FUNCTION\(([^)]*)\)", of)]
    assert declared == [order] * 3
    assert found(r"new_FUNCTION\(([^)]*)\)", of) == [order]
    assert found(r"decoders_FUNCTION\([^)]*\) {.*?(SET.*?)}", of) == [order]


OTHERS = """
from dataclasses import dataclass
from kproxy.decoders import exchange
exchange.Frame = dataclass(slots=True)(type("Frame", (exchange.Frame,), {"more": 0, "__annotations__": {"more": int}}))
from kproxy.decoders.conversation import compiled as conversation
print(conversation.COMPILED)
"""


def test_where_slots_lie_otherwise_nothing_is_compiled() -> None:
    run = subprocess.run([sys.executable, "-c", OTHERS], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False"]
