"""Checks for external tools that a system test needs."""

from __future__ import annotations

import os
import shutil

import pytest


def unavailable(reason: str) -> None:
    """Skip the test, or fail it in CI, where every tool must be installed."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def require(*tools: str) -> None:
    """Skip the test (in CI: fail) unless every tool is on the path."""
    for tool in tools:
        if shutil.which(tool) is None:
            unavailable(f"{tool} is not installed")
