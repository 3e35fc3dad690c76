from __future__ import annotations

import asyncio
import base64
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from textual.pilot import Pilot

from kproxy.captures.index.indexer import run
from kproxy.cli.commands.decode import command as decode
from kproxy.cli.commands.export import command as export
from kproxy.cli.main import main
from kproxy.tui.app import KproxyApp
from kproxy.tui.output.commands import Exporter
from kproxy.tui.output.copying import byte_copies, c_array, dump
from kproxy.tui.screens.menu import ChoiceMenu
from kproxy.tui.screens.views import HealthScreen
from kproxy.tui.terminal import clipboard
from tests.support.proxy import KPROXY
from tests.tui.screen import grid
from tests.tui.test_screens import sasl
from tests.tui.test_views import captured, until

__all__ = ["captured"]

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What goes to the terminal's clipboard."""
    monkeypatch.delenv("TMUX", raising=False)
    texts: list[str] = []
    monkeypatch.setattr(KproxyApp, "copy_to_clipboard", lambda _app, text: texts.append(text))
    return texts


@pytest.fixture
def real(tmp_path: Path) -> Path:
    run([CAPTURE], tmp_path / "index")
    return tmp_path / "index"


async def take(pilot: Pilot[bool], name: str) -> None:
    """Open the menu and take a line of it."""
    app = pilot.app
    await pilot.press("c")
    await pilot.pause()
    assert isinstance(app.screen, ChoiceMenu)
    names = [choice.name for choice in app.screen._choices]
    await pilot.press(*["j"] * names.index(name), "enter")
    await pilot.pause()
    await app.workers.wait_for_complete()
    await pilot.pause()


async def names(pilot: Pilot[bool]) -> list[str]:
    await pilot.press("c")
    await pilot.pause()
    assert isinstance(pilot.app.screen, ChoiceMenu)
    found = [choice.name for choice in pilot.app.screen._choices]
    await pilot.press("escape")
    await pilot.pause()
    return found


async def test_a_request_that_was_copied_is_decoded_again(real: Path, copied: list[str]) -> None:
    app = KproxyApp(real, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("g", "j")
        await take(pilot, "request hex")
        await take(pilot, "exchange JSON")
        await take(pilot, "filter")
        await take(pilot, "line")
    hexadecimal, text, selects, line = copied
    decoded = CliRunner().invoke(decode, ["--format", "json", hexadecimal])
    assert decoded.exit_code == 0, decoded.output
    exchange = json.loads(text)
    assert exchange["schema"] == "kproxy.exchange/1"
    assert json.loads(decoded.stdout)["body"] == exchange["request"]["body"]
    assert selects == "exchange == 2"
    assert line.startswith("N  2 06:11:10.120")


async def test_yank_takes_what_is_under_the_cursor(real: Path, copied: list[str]) -> None:
    app = KproxyApp(real, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("g", "j", "enter", *["right_curly_bracket"] * 2)
        for _ in range(30):
            await pilot.press("j")
            if app.main.detail.fields.node is not None and app.main.detail.fields.node.name == "host":
                break
        await pilot.press("y")
        await app.workers.wait_for_complete()
        await pilot.press("tab", "y")
        await app.workers.wait_for_complete()
        await pilot.pause()
    assert copied[0] == "127.0.0.1"
    assert bytes.fromhex(copied[1]).endswith(b"127.0.0.1")


async def test_a_record_is_copied(real: Path, copied: list[str]) -> None:
    app = KproxyApp(real, filter_text="api == Produce", ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("g", "enter", "right_curly_bracket")
        await pilot.pause()
        assert (await names(pilot))[:3] == ["key", "record JSON", "kcat line"]  # a tombstone
        await pilot.press("space")
        await pilot.pause()
        assert (await names(pilot))[:4] == ["value", "key", "record JSON", "kcat line"]
        await take(pilot, "kcat line")
        await take(pilot, "record JSON")
    exported = CliRunner().invoke(
        export, [str(CAPTURE), "--format", "records", "-o", "-", "-Y", "exchange == 7"], catch_exceptions=False
    )
    (told,) = map(json.loads, exported.stdout.splitlines())
    record = json.loads(copied[1])
    assert record["value"]
    assert record == {name: told[name] for name in record}
    assert list(record) == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    assert copied[0].startswith("kcat -b 127.0.0.1:19092 -C -t shop-orders -p 0 -o ")


async def test_secrets_are_not_copied(tmp_path: Path, copied: list[str]) -> None:
    app = KproxyApp(sasl(tmp_path), ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("g")
        found = await names(pilot)
        assert not [name for name in found if name.startswith("request")]
        assert "exchange JSON" in found
        await take(pilot, "exchange JSON")
        await pilot.press("enter", "left_curly_bracket")
        for _ in range(12):
            await pilot.press("j", "y")
            await app.workers.wait_for_complete()
    texts = "\n".join(copied)
    assert len(copied) > 5
    assert "letmein" not in texts
    assert b"letmein".hex() not in texts
    assert base64.b64encode(b"letmein").decode().rstrip("=") not in texts


def test_forms_of_bytes() -> None:
    data = bytes(range(40))
    forms = {copy.name: copy.make() for copy in byte_copies("field", data)}
    assert bytes.fromhex(forms["field hex"]) == data
    assert base64.b64decode(forms["field base64"]) == data
    inside = c_array(data).partition("{")[2].partition("}")[0]
    assert bytes(int(word, 16) for word in inside.replace(",", " ").split()) == data
    assert dump(b"AB\0").splitlines() == ["00000000  41 42 00" + " " * 41 + "AB."]


def test_tmux_takes_what_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tmux"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncat > {tmp_path}/buffer\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("TMUX", "/tmp/tmux/default,1,0")
    said: list[str] = []
    assert clipboard.copy("naïve " * 20_000, said.append) == "copied 140,000 B (tmux)"
    assert said == []
    assert (tmp_path / "arguments").read_text() == "load-buffer -w -\n"
    assert (tmp_path / "buffer").read_text(encoding="utf-8") == "naïve " * 20_000
    program.write_text("#!/bin/sh\nexit 1\n")
    assert clipboard.copy("x", said.append) == "copied 1 B"
    assert said == ["x"]


def test_what_is_too_long_goes_into_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    said: list[str] = []
    text = "y" * (clipboard.MOST_OSC52 + 1)
    path = Path(clipboard.copy(text, said.append).rpartition(" written to ")[2])
    assert said == []
    assert path.parent == tmp_path
    assert path.read_text() == text
    assert path.stat().st_mode & 0o077 == 0


async def test_what_was_done_is_said(index: Path, copied: list[str]) -> None:
    app = KproxyApp(index, ascii_only=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("y")
        await app.workers.wait_for_complete()
        await pilot.pause()
        said = [note.message for note in app._notifications]
    assert said == [f"copied {len(copied[0].encode())} B"]


async def test_the_command_that_prints_the_health_is_copied(captured: Path) -> None:
    app = KproxyApp(captured, ascii_only=False, exporter=Exporter(("kproxy", "export"), captures=(str(CAPTURE),)))
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.press("0")
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, HealthScreen)
        (command,) = [one.make() for one in screen.copies() if one.name == "command"]
    assert command == f"kproxy export {CAPTURE} | tail -n 1"
    ours = command.replace("kproxy ", f"{KPROXY} ", 1)
    done = await asyncio.to_thread(subprocess.run, ["sh", "-c", ours], check=True, capture_output=True, timeout=120)
    health = json.loads(done.stdout)
    assert health["schema"] == "kproxy.health/1"
    assert health["packets"] == 679


@pytest.mark.parametrize(
    ("keys", "command"),
    [
        ((), "kproxy export {capture}"),
        (("f", *"api == Produce", "enter"), "kproxy export {capture} -Y 'api == Produce'"),
        (("f", *"payments", "enter"), "kproxy export {capture} -Y '\"payments\"'"),
        (("m", "j", "m", "M"), "kproxy export {capture} -Y 'exchange >= 1 and exchange <= 2'"),
        (("2",), "kproxy stats {capture}"),
        (("2", "b"), "kproxy stats {capture} --by client"),
        (("7",), "kproxy findings {capture}"),
        (("9",), "kproxy export {capture} --format records"),
        (
            ("f", *"api == Produce", "enter", "g", "j", "9"),
            "kproxy export {capture} --format records -Y '(api == Produce) and (exchange >= 7)'",
        ),
    ],
)
async def test_the_command_that_prints_the_same_is_copied(
    keys: tuple[str, ...], command: str, tmp_path: Path, copied: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    capture = Path(shutil.copy(CAPTURE, tmp_path / "a.pcap"))
    run([capture], tmp_path / "index")
    exporter = Exporter(("kproxy", "export"), captures=(str(capture),))
    app = KproxyApp(tmp_path / "index", ascii_only=False, exporter=exporter)
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.press(*keys)
        await until(lambda: app.keys_wait is False and len(grid(app)) > 30, pilot)
        await pilot.press("c")
        await pilot.pause()
        menu = app.screen
        assert isinstance(menu, ChoiceMenu)
        assert menu._choices[-1].name == "command"
        await pilot.press("G", "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
    assert copied == [command.format(capture=capture)]
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(copied[0])[1:])
    assert ended.value.code == 0
    assert capsys.readouterr().out
