"""What tests of the relay share: a home of their own, and brokers that they play themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kproxy.support import FakeBroker, places


@pytest.fixture
def own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """kproxy's directories inside the test's own."""
    places(monkeypatch, tmp_path)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    fake = FakeBroker()
    yield fake
    fake.close()


@pytest.fixture
def second() -> Iterator[FakeBroker]:
    fake = FakeBroker()
    yield fake
    fake.close()
