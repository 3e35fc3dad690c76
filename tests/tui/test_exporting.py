# ruff: noqa: ASYNC240 (files are small, and nothing else waits)
from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from textual.pilot import Pilot

from kproxy.captures.index.indexer import run
from kproxy.cli.commands.export import command as export
from kproxy.cli.exporting import exporter
from kproxy.tui.app import KproxyApp
from kproxy.tui.output.commands import Exporter
from kproxy.tui.output.exporting import Choice, Wanted, arguments, numbers_test
from kproxy.tui.screens.export import ExportScreen
from kproxy.tui.settings.live import RunInfo
from tests.tui.screen import grid
from tests.tui.test_views import until

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"
FILTER = "api == Produce or error"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KproxyApp:
    """A real capture, shown through a filter; files are written to the working directory."""
    run([CAPTURE], tmp_path / "index")
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    return KproxyApp(tmp_path / "index", filter_text=FILTER, exporter=exporter([CAPTURE]), ascii_only=False)


async def over(app: KproxyApp, pilot: Pilot[bool]) -> None:
    """Wait until an export was begun and has ended."""
    # An export that has ended between two looks still says so.
    await until(lambda: app.main.exporting.export is None and bool(app.main.exporting.parts()), pilot)
    await pilot.pause()


def by_command(*options: str) -> bytes:
    done = CliRunner().invoke(export, [str(CAPTURE), *options])
    assert done.exit_code == 0, done.stderr
    return done.stdout_bytes


@pytest.mark.parametrize("form", ["jsonl", "csv", "pcapng"])
async def test_what_is_shown_is_exported_as_the_command_does(app: KproxyApp, form: str) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("x")
        await pilot.pause()
        assert isinstance(app.screen, ExportScreen)
        steps = ["jsonl", "json", "csv", "records", "html", "parquet", "pcapng"].index(form)
        await pilot.press("j", *["l"] * steps, "enter")
        await over(app, pilot)
    written = Path(f"kafka-4.4.0-librdkafka-shown.{form}").read_bytes()
    assert written == by_command("--format", form, "-Y", FILTER)
    assert [path.name for path in Path().iterdir()] == [f"kafka-4.4.0-librdkafka-shown.{form}"]


async def test_the_command_line_exports_at_once(app: KproxyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("colon", *"export csv mine.csv", "enter")
        await over(app, pilot)
        await pilot.pause(0.2)
        said = "\n".join(grid(app))
    assert Path("mine.csv").read_bytes() == by_command("--format", "csv", "-Y", FILTER)
    assert " exchanges; " in said
    assert "secrets withheld" in said


async def test_a_file_that_is_there_is_replaced_only_when_asked_twice(app: KproxyApp) -> None:
    Path("mine.csv").write_text("mine")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("colon", *"export csv mine.csv", "enter")
        await pilot.pause()
        assert "mine.csv exists already" in "\n".join(grid(app))
        await pilot.press("escape")
        await pilot.pause()
        assert Path("mine.csv").read_text() == "mine"
        await pilot.press("colon", *"export csv mine.csv", "enter")
        await pilot.pause()
        await pilot.press("enter")
        await over(app, pilot)
    assert Path("mine.csv").read_bytes() == by_command("--format", "csv", "-Y", FILTER)


async def test_hidden_rows_are_left_out(app: KproxyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        hidden = app.main.pane.selected
        assert hidden is not None
        await pilot.press("d", "x", "enter")
        await over(app, pilot)
    numbered = f"({FILTER}) and not (exchange == {hidden + 1})"
    assert Path("kafka-4.4.0-librdkafka-shown.jsonl").read_bytes() == by_command("-Y", numbered)


async def test_an_export_that_is_stopped_leaves_nothing(tmp_path: Path, app: KproxyApp) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import sys, time\n"
        "target = sys.argv[sys.argv.index('--output') + 1]\n"
        "open(target, 'w').write('half')\n"
        "time.sleep(600)\n"
    )
    app.main.exporting.exporter = Exporter((sys.executable, str(slow)))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("colon", *"export csv mine.csv", "enter")
        for _ in range(1200):
            if "exporting to mine.csv; x stops it" in "\n".join(grid(app)) and Path("mine.csv.part").exists():
                break
            await pilot.pause(0.05)
        assert "exporting to mine.csv; x stops it" in "\n".join(grid(app))
        await pilot.press("x", "j", "enter")
        await pilot.pause()
        assert app.main.exporting.export is None
    assert list(Path().iterdir()) == []


async def test_what_became_of_it_does_not_hide_the_rest_for_ever(
    app: KproxyApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("colon", *"export csv mine.csv", "enter")
        await over(app, pilot)
        assert "secrets withheld" in "".join(text for text, _ in app.main.exporting.parts())
        monkeypatch.setattr("kproxy.tui.screens.exporting.TOLD_SECONDS", 0)
        assert not app.main.exporting.parts()


async def test_what_a_run_without_a_named_recording_exports_is_called_by_its_port(
    index: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    app = KproxyApp(index, live=RunInfo("127.0.0.1:19092", "kafka:9092"), exporter=exporter(), ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("x")
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "File      kproxy-19092-shown.jsonl" in text
        assert "Exchanges that pass meanwhile are exported too." in text


async def test_a_failure_is_said_and_leaves_nothing(tmp_path: Path, app: KproxyApp) -> None:
    app.main.exporting.exporter = exporter([tmp_path / "gone.pcap"])
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("colon", *"export csv mine.csv", "enter")
        await over(app, pilot)
        await pilot.pause(0.2)
        assert "nothing exported: " in "\n".join(grid(app))
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([7], "exchange == 7"),
        ([9, 7], "exchange in (7, 9)"),
        ([1, 2, 3], "exchange >= 1 and exchange <= 3"),
        ([1, 2, 3, 7], "exchange == 7 or (exchange >= 1 and exchange <= 3)"),
    ],
)
def test_exchanges_by_their_numbers(numbers: list[int], text: str) -> None:
    assert numbers_test(numbers) == text


def test_presets_become_options() -> None:
    wanted = Wanted("shown", "csv", "payloads+hosts", Path("a.csv"))
    found = arguments(Exporter(("kproxy",)), ["a.pcap"], Choice(1, ("error",)), wanted, wanted.target)
    assert found == [
        "--format", "csv", "--filter", "error", "--redact", "payloads", "--redact", "hosts",
        "--output", "a.csv", "--", "a.pcap",
    ]  # fmt: skip


def test_what_is_read_is_never_replaced(tmp_path: Path) -> None:
    capture, link, other = tmp_path / "a.pcap", tmp_path / "b.pcap", tmp_path / "c.pcap"
    capture.touch()
    link.symlink_to(capture)
    other.touch()
    for target in (capture, link):
        assert "is the capture that is read here" in Wanted("all", "pcapng", "secrets", target).trouble(
            Choice(1), [str(capture)]
        )
    assert not Wanted("all", "pcapng", "secrets", other).trouble(Choice(1), [str(capture)])
