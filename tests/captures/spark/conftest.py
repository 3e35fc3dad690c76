"""Captures of tests are small: what pays in large ones only is done in them too."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from kproxy.captures.spark import plain


@pytest.fixture(scope="package", autouse=True)
def short_stretches() -> Generator[None]:
    """Stage 2 passes over whatever it can."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "LEAST", 2)
        yield
