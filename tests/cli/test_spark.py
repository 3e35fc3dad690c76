"""`kproxy spark` without Spark: in this process, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.captures.tables.schema import USUAL
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from kproxy.cli.spark_session import _line
from tests.captures import traffic
from tests.captures.spark.comparing import assert_same, exported, written


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["spark", *map(str, arguments)])


def test_small_captures_are_read_by_this_process(tmp_path: Path) -> None:
    done = run(traffic.LIBRDKAFKA, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    expected = exported([traffic.LIBRDKAFKA], tables=USUAL)
    assert (told["engine"], told["shuffle_bytes"]) == ("local", None)
    assert told["rows"] == {name: rows.total() for name, rows in expected.items()}
    assert_same(written(tmp_path / "out", USUAL), expected)


def test_it_says_what_it_wrote_and_what_is_wrong(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(traffic.LIBRDKAFKA.read_bytes()[:-5])
    done = run(tmp_path / "*.pcap", "--out", tmp_path / "out", "--tables", "exchanges,flows", "-Y", "api == Fetch")
    assert done.exit_code == Exit.INPUT
    assert "ends inside a packet" in done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["exchanges", "flows"]


@pytest.mark.parametrize(
    ("arguments", "text", "code"),
    [
        (["none.pcap", "--out", "o"], "No such file", Exit.INPUT),
        (["a", "--out", "o", "--tables", "exchange"], "did you mean exchanges?", Exit.USAGE),
        (["a"], "Missing option", Exit.USAGE),
        (["a", "--out", "a"], "a", Exit.USAGE),
        (["a", "--out", "o", "--engine", "spark", "-Y", "time > -5s"], "the end of the capture", Exit.USAGE),
        ([".", "--out", "o", "--follow", "-Y", "topic == x"], "filter the tables", Exit.USAGE),
        ([".", "--out", "o", "--follow", "--keylog", "a"], "--keylog and --follow exclude each other", Exit.USAGE),
        (["a", "--out", "o", "--once"], "--follow", Exit.USAGE),
        (["a", "--out", "o", "--follow"], "a: --follow takes one folder", Exit.USAGE),
        ([".", "--out", "o", "--follow", "--engine", "local"], "--engine local", Exit.USAGE),
    ],
)
def test_what_it_refuses(
    arguments: list[str], text: str, code: Exit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(traffic.LIBRDKAFKA.read_bytes())
    done = run(*arguments)
    assert done.exit_code == code, done.stderr
    assert text in done.stderr


def test_the_report_is_a_command_below_it() -> None:
    done = run("report", "--help")
    assert done.exit_code == 0
    assert done.stdout.startswith("Usage: kproxy spark report")


WHERE = "Job aborted\nTraceback (most recent call last):\n" + "    File x\n" * 60


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{WHERE}captures.errors.CaptureError: a.pcap: gone\n\n\tat org.apache.X\n", "CaptureError: a.pcap: gone"),
        (f"{WHERE}KeyError: 1\n\nDuring handling:\n\n  Traceback :\n  File y\nValueError: 2", "ValueError: 2"),
        (f"{WHERE}\tat org.apache.X\n", "Job aborted"),
    ],
    ids=["one", "two", "none, as its end is missing"],
)
def test_a_failure_is_told_in_the_line_that_says_what_was_raised(text: str, line: str) -> None:
    assert _line(RuntimeError(text)) == line
