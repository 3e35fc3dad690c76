"""What the commands over the views print of the captures is what Kafka's own reading of them tells."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiokafka.partitioner import murmur2
from click.testing import CliRunner

from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.support import judged
from tests.support.judged import CAPTURES, NEW, OLD, OLDEST


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def lines(name: str, *command: str, of: str = "") -> list[dict[str, Any]]:
    """What a command prints of a capture; `of` is a schema without its version."""
    result = CliRunner().invoke(main, [*command, str(CAPTURES / f"{name}.pcap")])
    assert result.exit_code == Exit.OK
    found = [json.loads(line) for line in result.stdout.splitlines()]
    return [line for line in found if not of or line["schema"] == f"kproxy.{of}/1"]


def test_followers_and_debuggers() -> None:
    (cluster,) = lines(OLDEST, "cluster", "--json", of="cluster")
    assert cluster["fetches"] == judged.fetches(OLDEST) == {"debugging": 3, "follower": 53}
    counted = lines(OLDEST, "stats", "--json", of="stats")
    assert sum(line["count"] for line in counted if line["api"] == "Fetch") == 56
    counted = lines(OLDEST, "stats", "--json", "-Y", "fetch.role == follower", of="stats")
    assert sum(line["count"] for line in counted) == 53


def test_controllers() -> None:
    (cluster,) = lines(OLDEST, "cluster", "--json", of="cluster")
    told = judged.controllers(OLDEST)
    assert told == [(1, 1), (2, 2)]
    assert (cluster["controller"], cluster["controller_epoch"]) == told[-1]
    events = [
        line["text"] for line in lines(OLDEST, "cluster", "--json", of="cluster_event") if line["kind"] == "controller"
    ]
    assert events == [f"controller {node} at epoch {epoch}" for node, epoch in told]


def test_a_group_s_leader_and_generations() -> None:
    (group,) = lines(OLD, "groups", "--json", of="group")
    shown = {one["generation"]: {(one["leader"], len(one["members"]))} for one in group["generations"]}
    assert shown == judged.generations(OLD)
    assert list(shown) == [1, 2]


def test_a_producer_whose_keys_go_by_murmur2() -> None:
    topics = {line["topic"]: line for line in lines(OLD, "topics", "--json", of="topic")}
    records = lines(OLD, "export", "--format", "records", "-Y", "api == Produce", of="record")
    keyed = {line["topic"] for line in records if line["key"] is not None}
    assert keyed
    for line in records:
        if line["key"] is not None:
            places = topics[line["topic"]]["partitions"]
            assert line["partition"] == (murmur2(line["key"].encode()) & 0x7FFFFFFF) % places
    named = {name for name, topic in topics.items() for one in topic["producers"] if one["partitioner"] == "murmur2"}
    assert named == keyed


def test_aborted_transactions() -> None:
    found = lines(NEW, "txns", "--json")
    assert [line["state"] for line in found if line["schema"] == "kproxy.transaction/1"] == judged.ended(NEW)
    (told,) = [line for line in found if line["schema"] == "kproxy.aborted_transaction/1"]
    times = judged.aborted(NEW)
    assert len(times) == len(told["exchanges"]) == 2
    assert {(told["partition"], told["producer_id"], told["first_offset"])} == set(times)


@pytest.mark.parametrize("name", [OLDEST, OLD, NEW])
def test_connections(name: str) -> None:
    links = lines(name, "conns", "--json", of="connection")
    assert Counter({line["client"]: line["exchanges"] for line in links}) == judged.connections(name)
