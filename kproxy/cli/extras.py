"""Checks that the packages that a command needs are installed."""

from __future__ import annotations

import importlib.util

from kproxy.cli.exits import Exit, Failure
from kproxy.decoders.extras import installing


def require(what: str, module: str, extra: str) -> None:
    """Check that the package for `what`, such as "--control", is installed.

    `module` is the name to import, `extra` the extra of kafka-kproxy that brings it. Raises Failure (exit 2).
    """
    try:
        found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a package that should hold the module is missing
        found = False
    if not found:
        raise Failure(f"{what} needs {module}, which is not installed: {installing(extra)}", Exit.USAGE)
