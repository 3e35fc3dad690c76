"""Findings in the interface: marks on evidence, jumps to it, the field that proves it, and dismissal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from textual.pilot import Pilot

from kproxy.captures.index.indexer import run
from kproxy.tui.app import KproxyApp
from kproxy.tui.listing.notes import Notes
from kproxy.tui.screens.views import FindingsScreen
from kproxy.tui.settings.preferences import Preferences
from kproxy.tui.widgets.preview import Preview
from tests.tui.screen import grid
from tests.tui.test_views import until

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "kafka-0.8.2.2.pcap"
"""Two of its clients use versions that Kafka 4 refuses: evidence is in exchanges 12, 107 and 108."""
SIZE = (120, 40)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return Path(shutil.copy(CAPTURE, tmp_path / "old.pcap"))


@pytest.fixture
def index(capture: Path, tmp_path: Path) -> Path:
    run([capture], tmp_path / "index")
    return tmp_path / "index"


async def found(app: KproxyApp, pilot: Pilot[bool]) -> None:
    """Wait until all findings are known."""
    await until(lambda: app.main._proving._found.grave == 2, pilot)
    await pilot.pause()


def row(app: KproxyApp, number: int) -> str:
    """The line of an exchange in the list, "" if it is not on screen."""
    return next((line for line in grid(app) if line[3:12].strip() == str(number)), "")


async def test_evidence_is_marked_and_the_title_counts_findings(index: Path) -> None:
    app = KproxyApp(index, preferences=Preferences(looks_for_findings=True))
    async with app.run_test(size=SIZE) as pilot:
        await found(app, pilot)
        assert row(app, 12)[2] == "!"
        assert row(app, 11)[2] == " "
        assert "findings 2" in grid(app)[0]


async def test_nothing_is_looked_for_unless_asked(index: Path) -> None:
    app = KproxyApp(index)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(0.5)
        assert app.analysis.pid is None
        await pilot.press("exclamation_mark")
        await until(lambda: app.main.pane.selected == 11, pilot)


async def test_keys_go_from_evidence_to_evidence_and_to_its_field(index: Path) -> None:
    app = KproxyApp(index, preferences=Preferences(looks_for_findings=True))
    async with app.run_test(size=SIZE) as pilot:
        await found(app, pilot)
        seen = []
        for _ in range(4):
            await pilot.press("exclamation_mark")
            await pilot.pause()
            node = app.main.detail.fields.node
            seen.append((app.main.pane.selected, app.main.detail.tab, None if node is None else node.name))
        assert seen == [(number - 1, "Request", "requestApiVersion") for number in (12, 107, 108, 12)]


async def test_the_exchange_of_a_line_is_shown_below_where_there_is_room(index: Path) -> None:
    app = KproxyApp(index, preferences=Preferences(looks_for_findings=True))
    async with app.run_test(size=SIZE) as pilot:
        await found(app, pilot)
        await pilot.press("7")
        await until(lambda: any("upgrade.cutoff" in line for line in grid(app)), pilot)
        screen = app.screen
        assert isinstance(screen, FindingsScreen)
        preview = screen.query_one(Preview)

        def is_shown() -> bool:
            return preview.display

        assert not is_shown()
        while screen.outline.exchange is None:
            await pilot.press("j")
        await pilot.pause()
        assert screen.outline.exchange == 12
        assert is_shown()
        below = "\n".join(grid(app)[preview.region.y : preview.region.bottom])
        assert "exchange 12: enter opens it" in below
        assert "12  Produce v0" in below
        assert "console-producer" in below
        assert screen.focused is screen.outline
        await pilot.click(Preview, offset=(5, 3))
        assert screen.focused is screen.outline
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert not is_shown()
        await pilot.resize_terminal(*SIZE)
        await pilot.pause()
        assert is_shown()
        await pilot.press("g")
        await pilot.pause()
        assert not is_shown()


async def test_the_overview_says_what_the_exchange_proves(index: Path) -> None:
    app = KproxyApp(index, preferences=Preferences(looks_for_findings=True))
    async with app.run_test(size=SIZE) as pilot:
        await found(app, pilot)
        await pilot.press("exclamation_mark", "left_curly_bracket")
        await pilot.pause()
        assert any(line.startswith(" finding") and "upgrade.cutoff: Produce v0" in line for line in grid(app))


async def test_the_screen_leads_to_the_field(index: Path) -> None:
    app = KproxyApp(index)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("7")
        await found(app, pilot)
        screen = app.screen
        assert isinstance(screen, FindingsScreen)
        # Findings known early are shown before those that outrank them: the evidence may not be on the first lines yet.
        await until(lambda: any(" #12 " in line for line in grid(app)[:10]), pilot)
        await pilot.press("g")
        while " #12 " not in grid(app)[2 + screen.pane.cursor]:
            await pilot.press("j")
        await pilot.press("enter")
        await pilot.pause()
        node = app.main.detail.fields.node
        assert app.main.pane.selected == 11
        assert node is not None
        assert node.name == "requestApiVersion"


async def test_a_dismissed_finding_counts_no_more_and_stays_dismissed(index: Path, capture: Path) -> None:
    app = KproxyApp(index, preferences=Preferences(looks_for_findings=True))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("7")
        await found(app, pilot)
        screen = app.screen
        assert isinstance(screen, FindingsScreen)
        # Findings known early are shown before those that outrank them: exchange 12 proves the first one in the end.
        await until(lambda: any("console-producer" in line for line in grid(app)[2:4]), pilot)
        await pilot.press("g")
        first = screen.outline.block
        assert first is not None
        assert "console-producer" in first.lines[0]
        await pilot.press("d")
        await until(lambda: "findings 1" in grid(app)[0], pilot)
        await pilot.press("G")
        await pilot.pause()
        assert any(line.strip().startswith("dismissed  WARN") for line in grid(app))
        await pilot.press("1")
        await pilot.pause()
        assert row(app, 12)[2] == " "
    kept = json.loads((capture.parent / "old.pcap.notes.json").read_text())["dismissed"]
    assert kept == [json.loads(str(first.key))[1]]

    app = KproxyApp(index, preferences=Preferences(looks_for_findings=True))
    async with app.run_test(size=SIZE) as pilot:
        await until(lambda: app.main._proving._found.grave == 1, pilot)
        await pilot.press("7", "G", "d")
        await until(lambda: app.main._proving._found.grave == 2, pilot)
    assert not (capture.parent / "old.pcap.notes.json").exists()


def test_notes_keep_dismissals_beside_marks(tmp_path: Path) -> None:
    path = tmp_path / "a.notes.json"
    notes = Notes(path)
    notes.dismiss("f1", on=True)
    notes.dismiss("f2", on=True)
    notes.dismiss("f1", on=False)
    assert Notes(path).dismissed == {"f2"}
    path.write_text('{"schema": "kproxy.notes/1", "exchanges": {}, "dismissed": 5}')
    assert Notes(path).trouble
    assert not Notes(path).dismissed
