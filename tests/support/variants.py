"""Modules that setup.py compiles where it can: tests of what they do are of the plain one and the compiled one."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest


def variants_of(plain: ModuleType) -> list[ModuleType]:
    """The module, and the extension that is made of it where there is one."""
    package, _, name = plain.__name__.rpartition(".")
    compiled: bool = import_module(f"{package}.compiled").COMPILED
    return [plain, import_module(f"{package}._{name}")] if compiled else [plain]


def each_variant_of(plain: ModuleType) -> pytest.MarkDecorator:
    """Gives a test both as `variant`."""
    return pytest.mark.parametrize("variant", variants_of(plain), ids=lambda one: one.__name__.rpartition(".")[2])
