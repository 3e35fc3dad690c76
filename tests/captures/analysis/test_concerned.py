"""The findings column of clients counts the warnings and errors that name each client."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.analysis.columns.stored import Stored
from kproxy.captures.analysis.concerned import with_findings
from kproxy.captures.index.indexer import run
from tests.support.proxy import KPROXY

DATA = Path(__file__).parents[2] / "data"
CAPTURES = [
    DATA / "captures" / "kafka-0.8.2.2.pcap",
    DATA / "findings" / "latency.throttled.pcap.xz",
    DATA / "findings" / "group.poll_gap.pcap.xz",
]


def printed(*arguments: object) -> list[dict[str, Any]]:
    done = subprocess.run([str(KPROXY), *map(str, arguments)], check=True, capture_output=True, timeout=120)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("packed", CAPTURES, ids=lambda path: path.name.partition(".pcap")[0])
def test_command_and_screen_count_what_kproxy_findings_prints(packed: Path, tmp_path: Path) -> None:
    data = packed.read_bytes()
    capture = tmp_path / "a.pcap"
    capture.write_bytes(lzma.decompress(data) if packed.suffix == ".xz" else data)
    told = [one for one in printed("findings", "--json", capture) if one.get("severity") in {"warn", "error"}]
    assert told

    def named(client: dict[str, Any]) -> int:
        who = {"client_id": client["client_id"], "peer": client["host"]}
        actors = [[{name: actor[name] for name in who} for actor in one["actors"]] for one in told]
        return sum(who in each for each in actors)

    rows = printed("clients", "--columns", "client_id,host,findings", "--json", capture)
    clients = [row for row in rows if row["schema"] == "kproxy.row/1"]
    assert clients
    assert [row["findings"] for row in clients] == [named(row) for row in clients]
    assert any(row["findings"] for row in clients)

    run([capture], tmp_path / "index")
    module = "kproxy.captures.analysis.snapshots"
    subprocess.run([sys.executable, "-P", "-m", module, str(tmp_path / "index")], check=True, timeout=120)
    shown = list(Stored(tmp_path / "index" / "views" / "clients.table").lines())
    assert {(one["client_id"], one["host"]): one["findings"] for one in shown} == {
        (row["client_id"], row["host"]): row["findings"] for row in clients
    }


def test_a_client_is_counted_once_for_each_finding() -> None:
    actor = {"role": "victim", "peer": "10.0.0.1", "client_id": "a", "member": None}
    findings: list[dict[str, Any]] = [
        {"severity": "warn", "actors": [actor, {**actor, "role": "cause"}]},
        {"severity": "note", "actors": [actor]},
        {"severity": "error", "actors": [{**actor, "peer": "10.0.0.2"}]},
    ]
    clients: list[dict[str, Any]] = [{"client_id": "a", "host": "10.0.0.1"}, {"client_id": None, "host": "10.0.0.1"}]
    assert [one["findings"] for one in with_findings(clients, findings)] == [1, 0]
