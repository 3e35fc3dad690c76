"""`kproxy audit` as a user calls it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import files
from tests.captures.traffic import KAFKA_0_8, KAFKA_1_1, LIBRDKAFKA


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["audit", *map(str, args)], catch_exceptions=False)


def test_text() -> None:
    result = run(KAFKA_0_8)
    assert result.exit_code == Exit.OK
    assert not result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "upgrade to Kafka 4.4.0: 4 cut-off, 0 unsure, 0 deprecated, 8 broker"
    assert lines[1] == (
        "Watched 2026-11-21T05:56:17Z to 2026-11-21T05:56:24Z: 6.9 s, traffic in 0.07% of the minutes of a day, "
        "154 exchanges, 8 clients. Clients that were silent then are not listed."
    )
    (row,) = [line.split() for line in lines if line.startswith("cut-off") and "console-producer" in line]
    assert row == [
        "cut-off", "console-producer@127.0.0.1", "Produce", "v0", "3-13", "38",
        "2026-11-21T05:56:18Z", "2026-11-21T05:56:20Z", "#12",
    ]  # fmt: skip
    assert "  console-producer@127.0.0.1  topics j-gzip, j-none, j-snappy" in lines
    assert (
        "    Produce v0 (message format 0): writing to topics; 4.4.0 serves no version below 3, and the client does "
        "not negotiate"
    ) in lines


def test_json_is_one_object() -> None:
    told = json.loads(run(KAFKA_0_8, "--target", "4.0", "--json").stdout)
    assert (told["schema"], told["target"], told["against"]) == ("kproxy.audit/1", "4.0.0", None)
    assert told["health"]["schema"] == "kproxy.health/1"
    assert told["verdicts"]["cut-off"] == sum(row["verdict"] == "cut-off" for row in told["rows"]) == 4


def test_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(run(KAFKA_0_8, "--csv").stdout)))
    assert len(rows) == 12
    assert (rows[0]["api"], rows[0]["client_id"], rows[0]["topics"]) == ("ListOffsets", "", "j-gzip j-none j-snappy")
    assert rows[-1]["served"] == ""


def test_html() -> None:
    text = run(KAFKA_0_8, "--html").stdout
    assert text.startswith("<!doctype html>")
    assert "<td>console-producer@127.0.0.1</td>" in text
    assert text.count('<tr><td class="cut-off">') == 4


@pytest.mark.parametrize(
    ("capture", "options", "code"),
    [
        (KAFKA_0_8, (), Exit.CONDITION),
        (KAFKA_0_8, ("--target", "3.9"), Exit.OK),
        (KAFKA_0_8, ("--json",), Exit.CONDITION),
        (KAFKA_1_1, (), Exit.OK),
        (LIBRDKAFKA, (), Exit.OK),
        (KAFKA_0_8, ("-Y", "fetch.role == follower"), Exit.OK),
    ],
)
def test_fail_on_cut_off(capture: Path, options: tuple[str, ...], code: Exit) -> None:
    assert run(capture, "--fail-on", "cut-off", *options).exit_code == code


def test_another_cluster() -> None:
    result = run(LIBRDKAFKA, "--against", KAFKA_1_1)
    assert result.stdout.startswith("upgrade to the cluster of kafka-1.1.1.pcap: 2 cut-off, 0 unsure")
    assert "ConsumerGroupHeartbeat v1: its groups; kafka-1.1.1.pcap does not serve this API" in result.stdout
    assert "software confluent-kafka-python 2.16.1-rdkafka-2.16.0" in result.stdout
    result = run(LIBRDKAFKA, "--against", KAFKA_0_8)
    assert result.exit_code == Exit.INPUT
    assert "no ApiVersions response, so the versions that its brokers serve are unknown" in result.stderr


def test_a_filter_does_not_hide_that_a_client_negotiates() -> None:
    told = json.loads(run(LIBRDKAFKA, "--against", KAFKA_1_1, "-Y", "api == ConsumerGroupHeartbeat", "--json").stdout)
    assert told["watched"]["exchanges"] == 9
    assert [row["negotiates"] for row in told["rows"]] == [True, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--target", "5.1"), "--target: '5.1' is not a release that kproxy knows; it knows 4.4.0, 4.3.0, "),
        (("--target", "4.0", "--against", LIBRDKAFKA), "--target and --against exclude each other"),
        (("--csv", "--json"), "--json and --csv exclude each other"),
        (("--fail-on", "nothing"), "'nothing' is not one of 'empty', 'cut-off'"),
    ],
)
def test_wrong_options(options: tuple[str | Path, ...], message: str) -> None:
    result = run(KAFKA_0_8, *options)
    assert result.exit_code == Exit.USAGE
    assert message in result.stderr


def test_a_capture_that_ends_early(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(KAFKA_0_8.read_bytes()[:60_000])
    result = run(cut, "--fail-on", "cut-off")
    assert result.exit_code == Exit.INPUT
    assert "console-producer@127.0.0.1" in result.stdout


def test_nothing_there(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(files.pcap([]))
    result = run(empty, "--fail-on", "empty")
    assert result.exit_code == Exit.EMPTY
    assert "The captures have no exchanges." in result.stdout
