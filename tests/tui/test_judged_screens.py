"""What the screens over the analysis say of the captures is what Kafka's own reading of them tells."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.captures.index.indexer import run
from kproxy.tui.actions import registry as actions
from kproxy.tui.app import KproxyApp
from kproxy.tui.screens.tables import TablesScreen
from kproxy.tui.views import analysis
from tests.support import judged
from tests.support.judged import CAPTURES, NEW, OLD, OLDEST
from tests.tui.screen import grid
from tests.tui.test_views import until


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Indexes of the captures, with what is added up."""
    found = {name: tmp_path_factory.mktemp("judged") / name for name in (OLDEST, OLD, NEW)}
    for name, index in found.items():
        run([CAPTURES / f"{name}.pcap"], index)
        subprocess.run([sys.executable, "-P", "-m", analysis.MODULE, str(index)], check=False, timeout=120)
    return found


@pytest.fixture(autouse=True)
def _added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis.Analysis, "start", lambda _: None)


async def shown(index: Path, screen: str, *keys: str) -> list[str]:
    """The lines of a screen, with the details of the row under the cursor if it has tables."""
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.pause()
        await pilot.press(actions.SCREENS[screen][0])
        await until(lambda: "reading" not in "\n".join(grid(app)[-3:]) and app.screen is not app.main, pilot)
        await pilot.press(*keys)
        await pilot.pause()
        if isinstance(app.screen, TablesScreen):
            app.screen.show_details()
            await pilot.pause()
        return [line.strip(" │█") for line in grid(app)]


async def test_followers_debuggers_and_controllers(indexes: dict[str, Path]) -> None:
    lines = await shown(indexes[OLDEST], "cluster", "left_curly_bracket")  # the brokers
    (fetches,) = [line for line in lines if line.startswith("fetches: ")]
    counts = {role: int(count) for count, role in re.findall(r"(\d+) (\w+)", fetches)}
    assert counts == judged.fetches(OLDEST) == {"debugging": 3, "follower": 53}
    told = [f"controller {node} at epoch {epoch}" for node, epoch in judged.controllers(OLDEST)]
    assert len(told) == 2
    assert any(told[-1] in line for line in lines)
    events = await shown(indexes[OLDEST], "cluster", "right_curly_bracket")
    texts = [
        found[1] for line in events if (found := re.match(r"\S+ +controller .* (controller \d+ at epoch \d+)", line))
    ]
    assert texts == told


async def test_the_figures_count_every_fetch(indexes: dict[str, Path]) -> None:
    lines = await shown(indexes[OLDEST], "stats")
    counts = [int(found[1]) for line in lines if (found := re.match(r"Fetch(?: \(long poll\))? +(\d+) ", line))]
    assert sum(counts) == sum(judged.fetches(OLDEST).values()) == 56


async def test_a_group_s_leader_and_generations(indexes: dict[str, Path]) -> None:
    lines = await shown(indexes[OLD], "groups")
    told = [re.search(r"generation (\d+): (\d+) members?, led by (\S+)", line) for line in lines]
    found = {int(one[1]): {(one[3], int(one[2]))} for one in told if one}
    assert found == judged.generations(OLD)
    assert list(found) == [1, 2]


async def test_a_producer_whose_keys_go_by_murmur2(indexes: dict[str, Path]) -> None:
    details = [line for down in range(5) for line in await shown(indexes[OLD], "topics", *["j"] * down)]
    producers = [line for line in details if line.startswith("producer ")]
    # those of kafka-python, which the first frames of the connections that produce name
    clients = {f"kp-{codec}" for codec in ("None", "gzip", "lz4", "snappy")}
    named = {line.split()[1].partition("@")[0] for line in producers if "keys fit murmur2" in line}
    assert named == clients


async def test_aborted_transactions(indexes: dict[str, Path]) -> None:
    lines = await shown(indexes[NEW], "transactions")
    states = [found[1] for line in lines if (found := re.match(r"shop-tx +(committed|aborted) +\d\d:", line))]
    assert states == judged.ended(NEW)
    told = judged.aborted(NEW)
    (partition, producer, offset), *_ = told
    assert len(told) == 2
    lines = await shown(indexes[NEW], "transactions", "right_curly_bracket")
    words = f"shop-payments-{partition}  aborted: producer {producer} from offset {offset} on, listed by 2 Fetches"
    assert [line for line in lines if line.startswith(words)]


@pytest.mark.parametrize("name", [OLDEST, OLD, NEW])
async def test_connections(name: str, indexes: dict[str, Path]) -> None:
    lines = await shown(indexes[name], "connections")
    # from, to, and the number of exchanges behind the time of the last one
    told = [re.search(r" (127\.0\.0\.1:\d+) +127\.0\.0\.1:\d+ .*\d\d:\d\d\.\d{3} +(\d+) ", line) for line in lines]
    counts = {one[1]: int(one[2]) for one in told if one}
    assert len(counts) > 10
    assert counts.items() <= judged.connections(name).items()
