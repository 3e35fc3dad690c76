"""The demo as a user runs it: mock cluster, real clients, proxy and reader, each in its process."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.cli.commands.demo import _relay
from kproxy.cli.exits import Exit, Failure
from kproxy.runs.demo import Traffic
from kproxy.runs.demo_problems import PROBLEMS
from tests.support.patience import SECONDS

APIS = {"Produce", "Fetch", "Metadata", "JoinGroup", "InitProducerId", "AddPartitionsToTxn", "EndTxn"}
CLIENTS = {"orders-svc", "web-clicks", "audit-log", "payments", "billing-1", "analytics-1", "inventory", "mailer-2"}
LENGTHS = (10, 90)
"""Seconds that the demo runs: long enough on most machines, then long enough on a loaded one."""
STORY_LENGTHS = (30, 120)
"""Seconds that the demo runs until all planted problems are found."""
MOCK_QUIRKS = {
    ("ApiVersions", "trailing_bytes"),
    ("Metadata", "trailing_bytes"),
    ("Fetch", "crc_mismatch"),
    ("SyncGroup", "bad_length"),
}
"""librdkafka's mock ends two answers with a byte too many, gives its transaction markers no checksum, and refuses a
SyncGroup with a null assignment, which Kafka's definition does not allow."""


def demo(
    *args: str, home: Path, words: set[str], lengths: tuple[int, ...] = LENGTHS
) -> subprocess.CompletedProcess[str]:
    """The demo's end; it runs once more, for longer, where its output lacks some of the words."""
    for seconds in lengths:
        done = subprocess.run(
            [sys.executable, "-m", "kproxy", "demo", "--seconds", str(seconds), *args],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + SECONDS,
            env={"PATH": "", "HOME": str(home), "XDG_CACHE_HOME": str(home), "XDG_STATE_HOME": str(home)},
        )
        if done.returncode or all(word in done.stdout for word in words):
            break
    return done


def test_headless_prints_exchanges_and_a_table_per_api(tmp_path: Path) -> None:
    result = demo("--headless", home=tmp_path, words=APIS)
    assert result.returncode == Exit.OK, result.stderr
    assert "bootstrap.servers=127.0.0.1:" in result.stderr
    passed, closing, story = result.stdout.split("\n\n")
    exchanges = [line for line in passed.splitlines() if not line.startswith("FINDING ")]
    rows = [re.split(r" {2,}", row) for row in closing.splitlines()[1:]]
    counts = {name: int(count) for name, count, *_ in rows}
    assert sum(counts.values()) == len(exchanges)
    assert set(counts) >= APIS
    assert [one.finding in story for one in PROBLEMS] == [True] * 3
    assert not list(tmp_path.rglob("*.pcapng"))


@pytest.mark.system
def test_the_findings_name_every_planted_problem_and_nothing_else(tmp_path: Path) -> None:
    recording = tmp_path / "demo.pcapng"
    wanted = {one.finding for one in PROBLEMS}
    found = {f"  found         {rule}" for rule in wanted}
    result = demo("--headless", "-w", str(recording), "--force", home=tmp_path, words=found, lengths=STORY_LENGTHS)
    assert result.returncode == Exit.OK, result.stderr
    lines = [line.split() for line in result.stdout.splitlines() if line.startswith("FINDING opened ")]
    assert {rule for _, _, severity, rule, *_ in lines if severity in {"WARN", "ERROR"}} == wanted
    again = subprocess.run(
        [sys.executable, "-m", "kproxy", "findings", "--json", str(recording)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    rules = {finding["rule"] for finding in map(json.loads, again.stdout.splitlines()) if "rule" in finding}
    assert rules >= wanted


@pytest.mark.system
def test_json_decodes_without_a_problem_and_records(tmp_path: Path) -> None:
    recording = tmp_path / "demo.pcapng"
    result = demo("--json", "-w", str(recording), home=tmp_path, words=CLIENTS)
    assert result.returncode == Exit.OK, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    *exchanges, health = lines
    assert health["schema"] == "kproxy.health/1"
    assert {line["schema"] for line in exchanges} == {"kproxy.exchange/1"}
    found = {(line["api"], problem["code"]) for line in exchanges for problem in line["problems"]}
    assert found <= MOCK_QUIRKS
    whole = [line for line in exchanges if not any(problem["code"] == "bad_length" for problem in line["problems"])]
    assert {line["status"] for line in whole} <= {"ok", "no_response", "no_reply_expected"}
    assert {line["client_id"] for line in exchanges} >= CLIENTS
    stats = subprocess.run(
        [sys.executable, "-c", "from kproxy.cli.main import main; main()", "stats", "--json", str(recording)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    *lines, _health = map(json.loads, stats.stdout.splitlines())
    assert sum(line["count"] for line in lines) == len(exchanges)


def test_a_second_one_takes_another_port(monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = Traffic()
    traffic.bootstrap = "127.0.0.1:1"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("kproxy.runs.settings.LISTEN_PORT", port)
        with _relay(traffic, None, None) as relay:
            assert relay.bootstrap.startswith("127.0.0.1:")
            assert relay.bootstrap != f"127.0.0.1:{port}"
        with pytest.raises(Failure, match=f"cannot listen on 127.0.0.1:{port}: Address already in use") as failed:
            _relay(traffic, None, port)
        assert failed.value.exit_code == Exit.CONNECT


@pytest.mark.parametrize("option", ["--seconds=0", "--seconds=x", "--listen-port=70000"])
def test_wrong_options(option: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", "from kproxy.cli.main import main; main()", "demo", option],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert result.returncode == Exit.USAGE
    assert len(result.stderr.splitlines()) == 1
