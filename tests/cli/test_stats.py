from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from kproxy.cli.tables import milliseconds, table

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "kafka-1.1.1.pcap"


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["stats", *map(str, args)])


def test_a_table_with_the_most_frequent_api_first() -> None:
    result = run(CAPTURE)
    assert result.exit_code == Exit.OK
    head, *rows = result.stdout.splitlines()
    assert head.split("  ")[0] == "API"
    counts = [int(row.split()[-9]) for row in rows]
    assert counts == sorted(counts, reverse=True)
    assert rows[0].startswith("Fetch (long poll) ")
    assert sum(int(row.split()[-9]) for row in rows if row.startswith("Fetch ")) == 99


def objects(*args: str | Path) -> list[dict[str, Any]]:
    """What --json prints, without the health that ends it."""
    *lines, health = (json.loads(line) for line in run("--json", CAPTURE, *args).stdout.splitlines())
    assert health["schema"] == "kproxy.health/1"
    return lines


def test_json() -> None:
    lines = objects()
    assert {line["schema"] for line in lines} == {"kproxy.stats/1"}
    assert [line["count"] for line in lines if line["api"] == "Fetch"] == sorted(
        [line["count"] for line in lines if line["api"] == "Fetch"], reverse=True
    )
    fetches = [line for line in lines if line["api"] == "Fetch"]
    assert sum(line["count"] for line in fetches) == 99
    assert sum(line["errors"] for line in fetches) == 1
    assert {line["long_poll"] for line in fetches} == {True, False}
    for line in fetches:
        assert line["p50_ms"] <= line["p90_ms"] <= line["p99_ms"] <= line["max_ms"]
    assert sum(sum(line["error_codes"].values()) for line in fetches) == 1


def test_by_topic() -> None:
    names = {line["topic"] for line in objects("--by", "topic")}
    assert {"t-gzip", "(none)"} <= names
    assert run("--by", "topic", CAPTURE).stdout.startswith("topic ")


def total(*args: str | Path) -> int:
    return sum(line["count"] for line in objects(*args))


def test_selection() -> None:
    everything = total()
    assert total("-c", "10") == 10
    assert total("-c", "0") == 0
    assert total("-Y", "api == Fetch") == 99
    assert total("-Y", "not api == Fetch") == everything - 99
    assert total("-Y", "api == Fetch", "-c", "5") == 5
    assert total("--port", "1-2") == 0
    assert total(CAPTURE.with_name("kafka-0.8.2.2.pcap")) == everything + 154
    assert total("--since", "2020-01-01") == everything
    assert total("--until", "2020-01-01") == 0
    assert [line["count"] for line in objects("-c", "1")] == [1]


def test_nothing_to_count_is_said() -> None:
    result = run(CAPTURE, "--until", "2001-01-01")
    assert result.exit_code == Exit.OK
    assert "no Kafka exchange that matches" in result.stderr


def test_a_cut_capture_is_counted_as_far_as_it_goes(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(CAPTURE.read_bytes()[:100_000])
    result = run(cut)
    assert result.exit_code == Exit.INPUT
    assert "Fetch" in result.stdout
    health, error = result.stderr.splitlines()
    assert health == "kproxy: warning: 1 frame cut"
    assert error.startswith(f"kproxy: {cut}: byte ")


@pytest.mark.parametrize(
    ("name", "content"),
    [("none", None), ("empty", b""), ("text", b"hello, world\n" * 50), ("head", b"\xd4\xc3\xb2\xa1\x02\x00")],
)
def test_input_that_is_no_capture(tmp_path: Path, name: str, content: bytes | None) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    result = run(path)
    assert result.exit_code == Exit.INPUT
    assert len(result.stderr.splitlines()) == 1
    assert str(path) in result.stderr


def test_a_directory_that_is_no_recording(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == Exit.INPUT
    assert len(result.stderr.splitlines()) == 1


def test_table() -> None:
    assert table(("a", "b"), [("xx", "1"), ("y", "22")]) == ["a    b", "xx   1", "y   22"]


def test_milliseconds() -> None:
    assert [milliseconds(value) for value in (None, 0.04, 55.1, 1234.5)] == ["-", "0.0", "55.1", "1234"]


def test_a_time_before_the_end_is_refused() -> None:
    refused = run("stats", "-Y", "api == Fetch and time >= -60s", CAPTURE)
    assert refused.exit_code == 2
    assert "the end of the capture is not known" in refused.stderr
