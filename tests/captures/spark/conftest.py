"""Makes tests with small captures use optimisations that otherwise start only in large ones."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from kproxy.captures.spark.claims import plain


@pytest.fixture(scope="package", autouse=True)
def short_stretches() -> Generator[None]:
    """Let stage 2 pass over stretches of two segments and more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "LEAST", 2)
        yield
