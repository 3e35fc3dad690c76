from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import textual.app

from tests.support.indexes import sample

LOOK_SECONDS = 0.005
"""How often it is looked whether a key has been worked off."""


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Screens show the local clock: make that one the same everywhere."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NO_COLOR", raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """An index with every kind of row."""
    return sample(tmp_path)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys follow each other as soon as the process is idle; Textual's pilot looks for that four times as seldom.

    `pilot.pause` waits as it does by itself.
    """
    monkeypatch.setattr(textual.app, "wait_for_idle", _idle)


async def _idle(_least: float, most: float = 1) -> None:
    """Wait until the process takes next to no CPU time, `most` seconds at most."""
    begin = time.monotonic()
    while time.monotonic() - begin < most:
        before = time.process_time()
        await asyncio.sleep(LOOK_SECONDS)
        if time.process_time() - before < LOOK_SECONDS / 20:
            return
