"""Parametrises tests of modules that setup.py compiles where it can: plain and compiled."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest


def variants_of(plain: ModuleType) -> list[ModuleType]:
    """The module, and its compiled extension if there is one."""
    package, _, name = plain.__name__.rpartition(".")
    compiled: bool = import_module(f"{package}.compiled").COMPILED
    return [plain, import_module(f"{package}._{name}")] if compiled else [plain]


def each_variant_of(plain: ModuleType) -> pytest.MarkDecorator:
    """Parametrises a test with `variant`, each of the module's variants."""
    return pytest.mark.parametrize("variant", variants_of(plain), ids=lambda one: one.__name__.rpartition(".")[2])
