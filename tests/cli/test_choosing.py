"""`kproxy` without a command says what can be done here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.cli import choosing
from kproxy.cli.exits import Exit
from kproxy.cli.main import main


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "TMPDIR"):
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def said() -> list[str]:
    result = CliRunner().invoke(main, [])
    assert result.exit_code == Exit.USAGE, result.output
    return [line.strip() for line in result.stderr.splitlines()]


def commands() -> list[str]:
    return [line.partition("  ")[0] for line in said() if line.startswith("kproxy ") and "  " in line]


def test_with_nothing_there_it_offers_the_demo_and_says_how_to_run_a_proxy() -> None:
    assert commands() == ["kproxy demo", "kproxy run --upstream HOST:PORT"]
    assert said()[-1].startswith("kproxy --help lists all commands")


def test_the_newest_captures_are_offered() -> None:
    for age, name in enumerate(["newest.pcap", "second.pcapng.zst", "odd name.pcap.gz", "oldest.pcap", "notes.txt"]):
        Path(name).touch()
        os.utime(name, (1_700_000_000 - age, 1_700_000_000 - age))
    Path("folder.pcap").mkdir()
    Path("--help.pcap").touch()
    assert commands() == [
        "kproxy replay newest.pcap",
        "kproxy replay second.pcapng.zst",
        "kproxy replay 'odd name.pcap.gz'",
        "kproxy findings newest.pcap",
        "kproxy demo",
        "kproxy run --upstream HOST:PORT",
    ]


def test_a_name_cannot_write_to_the_terminal() -> None:
    Path("\x1b[2Jcleared.pcap").touch()
    assert "\x1b" not in "".join(said())


def test_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    assert [choice.words for choice in choosing.choices(tmp_path / "none")][:1] == [("demo",)]


def test_only_complete_choices_have_numbers() -> None:
    found = choosing.choices(Path())
    numbered = list(choosing.lines(found, numbered=True))
    assert numbered[0].startswith("  1 kproxy demo ")
    assert numbered[1].startswith("    kproxy run ")
