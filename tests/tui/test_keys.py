"""Any keys at any size: nothing raises, and a screen is painted."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from captures.index.indexer import run
from tests.support.indexes import sample
from tests.tui.screen import grid
from tui import actions
from tui.app import KproxyApp
from tui.live import RunInfo

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"
# leaving the application ends a run early: those keys have tests of their own
LEAVING = {"q", "Q", "escape", "ctrl+c"} | {"colon", "ctrl+p"}  # by name as well
TITLES = (" kproxy", " Help", " Filter by", " Saved filters", " Copy")
SCREENS = [key for key, _, _ in actions.SCREENS.values()]
KEYS = sorted(
    {key for action in actions.ACTIONS for key in action.keys} - LEAVING | {"a", "=", "1", "(", "space", "delete"}
)
SIZES = st.tuples(st.integers(20, 200), st.integers(5, 60))


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("indexes")
    run([CAPTURE], directory / "capture")
    return [directory / "capture", sample(directory)]


async def press_all(index: Path, keys: list[str], sizes: list[tuple[int, int]], *, live: bool) -> None:
    info = RunInfo("127.0.0.1:19092", "kafka:9092") if live else None
    app = KproxyApp(index, live=info, ascii_only=False)
    async with app.run_test(size=(100, 30)) as pilot:
        for number, key in enumerate(keys):
            app.simulate_key(key)
            if number % 8 == 7:
                await pilot.resize_terminal(*sizes[number // 8 % len(sizes)])
            if number % 4 == 3:
                await pilot.pause(0)
        await pilot.pause()
        assert app.is_running
        assert app._exception is None
        assert any(grid(app))
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        assert grid(app)[0].startswith(TITLES)
        assert app.screen.focused is not None
        assert app.screen.focused.is_on_screen


# a run takes a second: the first failing sequence is told, not the shortest
@settings(
    max_examples=int(os.environ.get("KEY_SEQUENCES", "12")),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    keys=st.lists(st.sampled_from(KEYS) | st.sampled_from(SCREENS), min_size=20, max_size=60),
    sizes=st.lists(SIZES, min_size=1, max_size=6),
    which=st.integers(0, 1),
    live=st.booleans(),
)
def test_any_keys_at_any_size(
    indexes: list[Path], keys: list[str], sizes: list[tuple[int, int]], which: int, live: bool
) -> None:
    asyncio.run(press_all(indexes[which], keys, sizes, live=live))


def test_the_screen_waits_for_an_index_that_is_not_there(tmp_path: Path) -> None:
    asyncio.run(press_all(tmp_path / "none", ["j", "enter", "question_mark"], [(80, 24)], live=True))
