"""Outside tools that a system test needs."""

from __future__ import annotations

import os
import shutil

import pytest


def unavailable(reason: str) -> None:
    """Skip the test, or fail it in CI, where everything must be there."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def require(*tools: str) -> None:
    """Skip (in CI: fail) unless every tool is on the path."""
    for tool in tools:
        if shutil.which(tool) is None:
            unavailable(f"{tool} is not installed")
