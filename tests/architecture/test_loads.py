"""What can run code while it is read comes only from pipes and shuffles of our own processes, never from a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("decoders", "captures", "kproxy", "tui", "pyspark_kproxy", "tools", "bench")
MODULES = frozenset(
    {"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "jsonpickle", "copyreg"}
)
CALLS = frozenset({"eval", "exec", "__import__"})
ATTRIBUTES = frozenset({"allow_pickle", "unsafe_load", "full_load", "read_pickle"})

OUR_TEXT = "compiles text that it has made of the message definitions"
SHUFFLE = "rows that Spark shuffles between stages of one job of ours"
PIPE = "pipes between processes that this one has forked"
ALLOWED = {
    ("captures/export/packing.py", "marshal"): PIPE,
    ("captures/export/packing.py", "pickle"): PIPE,
    ("captures/export/parallel.py", "marshal"): PIPE,
    ("captures/export/rows.py", "exec"): "compiles text of the tables of columns",
    ("captures/index/block.py", "marshal"): PIPE,
    ("captures/index/parallel.py", "marshal"): PIPE,
    ("captures/index/parallel.py", "pickle"): PIPE,
    ("captures/spark/read/closing.py", "pickle"): SHUFFLE,
    ("captures/spark/read/digest.py", "pickle"): SHUFFLE,
    ("captures/spark/read/flows.py", "pickle"): SHUFFLE,
    ("captures/spark/read/opening.py", "marshal"): SHUFFLE,
    ("captures/spark/read/opening.py", "pickle"): SHUFFLE,
    ("captures/spark/read/packing.py", "pickle"): SHUFFLE,
    ("captures/spark/read/events.py", "pickle"): SHUFFLE,
    ("captures/tables/places.py", "exec"): OUR_TEXT,
    ("decoders/compiler.py", "exec"): OUR_TEXT,
    ("decoders/errorcodes.py", "exec"): OUR_TEXT,
    ("decoders/jsonform.py", "exec"): OUR_TEXT,
    ("decoders/subjects.py", "exec"): OUR_TEXT,
    ("kproxy/core/walker.py", "exec"): OUR_TEXT,
}
"""Where each may be used, and why it reads nothing that others can write."""


def used(text: str) -> Iterator[str]:
    """The modules, functions and options in a source that can run what they read."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES:
            yield node.module or ""
        elif isinstance(node, ast.Name) and node.id in CALLS:
            yield node.id
        elif isinstance(node, ast.keyword) and node.arg in ATTRIBUTES:
            yield node.arg or ""
        elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            yield node.attr
        elif isinstance(node, ast.Constant) and node.value in MODULES - {"copyreg"}:
            yield f"the name {node.value}"  # import_module


def test_only_known_places_read_what_can_run() -> None:
    found = {
        (str(path.relative_to(ROOT)), one)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for one in used(path.read_text("utf-8"))
    }
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    "text",
    ["import pickle", "from pickle import loads", "import dill as json", "eval(x)", "numpy.load(f, allow_pickle=True)",
     "__import__('x')", "yaml.unsafe_load(x)", "import_module('marshal')"],
)  # fmt: skip
def test_each_is_noticed(text: str) -> None:
    assert list(used(text))
