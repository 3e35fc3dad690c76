"""The Health screen: what happened, when, what to do, and which exchanges are concerned."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from kproxy.captures.index.indexer import run
from kproxy.captures.index.reader import IndexReader, IndexUnreadableError
from kproxy.runs.launcher import Indexer, wait_until
from kproxy.tui.app import KproxyApp
from kproxy.tui.screens.views import HealthScreen
from kproxy.tui.views import index_writer as writer
from tests.tui.screen import grid
from tests.tui.test_views import until

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"
PATIENCE = 60.0


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "growing.pcap"
    path.write_bytes(CAPTURE.read_bytes())
    return path


@pytest.fixture
def indexer(capture: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that follows the capture, and has read what there is of it."""
    index = tmp_path / "index"
    module = "kproxy.captures.index.indexer"
    with subprocess.Popen(
        [sys.executable, "-P", "-m", module, "--follow", str(capture), str(index)], stderr=subprocess.DEVNULL
    ) as process:

        def has_read() -> bool:
            try:
                with IndexReader(index) as reader:
                    return reader.meta.get("bytes_read") == capture.stat().st_size
            except IndexUnreadableError:
                return False

        try:
            assert wait_until(has_read, PATIENCE)
            yield process
        finally:
            process.kill()


async def health(app: KproxyApp, pilot: Pilot[bool]) -> HealthScreen:
    await until(lambda: app.main.pane.view is not None, pilot)
    await pilot.press("0")
    await pilot.pause()
    screen = app.screen
    assert isinstance(screen, HealthScreen)
    return screen


@pytest.fixture(autouse=True)
def _looking_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "LOOK_SECONDS", -1.0)


def said(app: KproxyApp, screen: HealthScreen) -> str:
    screen._looked = 0.0
    screen._tick()
    return "\n".join(grid(app))


async def test_an_indexer_that_was_killed_is_told_with_its_signal(
    indexer: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    app = KproxyApp(tmp_path / "index", ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await health(app, pilot)
        assert "Capture  following" in said(app, screen)
        indexer.kill()
        await until(lambda: writer.end_of(indexer.pid) is not None, pilot)
        said(app, screen)
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "Capture  reading ended early" in text
        assert f"the indexer (process {indexer.pid}) was ended by SIGKILL" in text
        assert "to do: open the capture again" in text
        assert "no further rows" in grid(app)[-3]


async def test_a_followed_capture_that_was_truncated_is_told(
    indexer: subprocess.Popen[bytes], capture: Path, tmp_path: Path
) -> None:
    assert indexer.poll() is None
    app = KproxyApp(tmp_path / "index", ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await health(app, pilot)
        os.truncate(capture, 1_000)
        said(app, screen)
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "Capture  reading ended early" in text
        assert "growing.pcap was truncated: 1.0kB are left of the" in text


def test_one_truncated_file_of_several_is_told(tmp_path: Path) -> None:
    paths = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for path in paths:
        path.write_bytes(bytes(5_000))
    meta = {"state": "following", "sources": [str(path) for path in paths], "bytes_read": 10_000, "pid": os.getpid()}
    looking = writer.Writer()
    assert looking.ended(meta) is None
    paths[0].write_bytes(bytes(9_000))
    paths[1].write_bytes(bytes(1_000))
    told = looking.ended(meta)
    assert told is not None
    assert told.cause == "b.pcap was truncated: 1.0kB are left of the 5.0kB that it had"


@pytest.mark.parametrize(
    ("code", "how"), [(-9, "was ended by SIGKILL"), (70, "ended with exit code 70"), (None, "has ended")]
)
def test_a_live_runs_indexer_is_told_with_its_signal(code: int | None, how: str) -> None:
    """Whoever started it has waited for it, so the system no longer knows how it ended."""
    meta = {"state": "following", "sources": [], "pid": ended_and_waited_for()}
    told = writer.Writer(lambda: code).ended(meta)
    assert told is not None
    assert told.cause == f"the indexer (process {meta['pid']}) {how}"
    assert "kproxy attach" in told.remedy


def test_an_indexer_that_is_not_started_again_leaves_its_exit_code(tmp_path: Path) -> None:
    indexer = Indexer(tmp_path / "none", tmp_path / "index", module="this.does_not_exist")
    try:
        assert wait_until(lambda: indexer.ended is not None, PATIENCE)
        assert indexer.ended == 1
    finally:
        indexer.stop()


def ended_and_waited_for() -> int:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        return process.pid


async def test_a_cut_last_packet_is_no_failure(tmp_path: Path) -> None:
    capture = tmp_path / "cut.pcap"
    capture.write_bytes(CAPTURE.with_name("kafka-1.1.1.pcap").read_bytes()[:100_000])
    assert run([capture], tmp_path / "index") is not None
    app = KproxyApp(tmp_path / "index", ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await health(app, pilot)
        await pilot.pause()
        text = said(app, screen)
        assert "failed" not in text
        assert "Capture  read as far as it can be read" in text
        assert "everything before that place is shown" in text
        # the line that counts frames of which bytes are missing opens their exchanges
        lines = [line for block in screen.outline._blocks for line in block.lines]
        at = next(number for number, line in enumerate(lines) if "only the beginning" in line)
        await pilot.press(*["j"] * at, "enter")
        await until(lambda: app.screen is app.main and app.main.filtering.filtered, pilot)
        assert app.main.bar.applied == "partial"
        assert app.main.pane.count >= 1


def test_how_a_process_ended_is_told() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "raise SystemExit(3)"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert writer.end_of(process.pid) == "ended with exit code 3"
    assert writer.end_of(process.pid) == "has ended"
    assert writer.end_of(os.getppid()) is None
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert writer.end_of(process.pid) is None
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert writer.end_of(process.pid) == "was ended by SIGKILL"  # before anybody has waited for it
