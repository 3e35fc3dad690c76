"""The table findings has what the JSON of findings has, and who and what is concerned in columns of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from kproxy.captures.findings.model import Actor, Confidence, Evidence, Finding, Scope, Severity
from kproxy.captures.findings.rows import finding_rows
from kproxy.captures.tables import arrow
from kproxy.captures.tables.schema import FINDINGS, USUAL
from kproxy.cli.main import main
from kproxy.decoders.exchange_json import timestamp
from tests.captures import traffic

RECIPES = sorted((traffic.DATA / "findings").glob("*.pcap.xz"))


def exported(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """The rows of the table findings of an export, in the order of `kproxy findings`."""
    command = ["export", *arguments, "--format", "parquet", "-o", str(folder), "--tables", "exchanges,findings"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.stderr
    rows = ds.dataset(folder / "findings", format="parquet").to_table().to_pylist()
    return sorted(rows, key=lambda row: row["rank"])


def printed(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, ["findings", *arguments, "--json", "--severity", "info"])
    assert result.exit_code == 0, result.stderr
    return [one for one in map(json.loads, result.stdout.splitlines()) if one["schema"] == "kproxy.finding/1"]


def as_json(row: dict[str, Any]) -> dict[str, Any]:
    """What a row has of the finding's JSON."""
    same = (
        "rule", "severity", "confidence", "summary", "cause", "occurrences", "verify", "unknown", "actors",
    )  # fmt: skip
    return {
        **{name: row[name] for name in same},
        "id": row["finding_id"],
        "parent": row["parent_id"],
        "scope": {"kind": row["scope_kind"], "name": row["scope"]},
        "first_time": timestamp(row["first_ts_ns"], 9),
        "last_time": timestamp(row["last_ts_ns"], 9),
        "impact": {"unit": row["impact_unit"], "value": row["impact"]},
        "numbers": dict(row["numbers"]),
        "limits": dict(row["limits"]),
        "coverage": dict(row["coverage"]),
        "evidence": [
            {name: value for name, value in proof.items() if name != "ts_ns"} | {"time": timestamp(proof["ts_ns"], 9)}
            for proof in row["evidence"]
        ],
    }


@pytest.mark.parametrize(
    "capture",
    [traffic.KAFKA_1_1, *RECIPES[::6]],
    ids=lambda path: path.name.removesuffix(".pcap.xz"),
)
def test_rows_say_what_the_json_says(capture: Path, tmp_path: Path) -> None:
    rows, expected = exported(tmp_path, str(capture)), printed(str(capture))
    assert [row["rank"] for row in rows] == list(range(1, len(expected) + 1))
    for row, one in zip(rows, expected, strict=True):
        found = as_json(row)
        numbers = {name: str(value) for name, value in one["numbers"].items()}
        assert found == {name: one[name] for name in found} | {"numbers": numbers}
        assert [text.partition(": ")[0] for text in row["fixes"]] == [fix["side"] for fix in one["fixes"]]
        assert row["family"] == one["rule"].split(".")[0]


def test_a_filter_selects_what_findings_rest_on(tmp_path: Path) -> None:
    arguments = str(traffic.KAFKA_1_1), "-Y", "api == CreateTopics or api == DeleteTopics or api == LeaderAndIsr"
    rows = exported(tmp_path, *arguments)
    assert [row["finding_id"] for row in rows] == [one["id"] for one in printed(*arguments)]
    assert 0 < len(rows) < len(printed(str(traffic.KAFKA_1_1)))


def test_redacted_hosts_are_in_no_finding(tmp_path: Path) -> None:
    rows = exported(tmp_path, str(traffic.KAFKA_1_1), "--redact", "hosts")
    assert len(rows) > 10
    assert "127.0.0.1" not in str(rows)


def test_findings_are_written_on_request() -> None:
    assert FINDINGS.name not in USUAL


NOBODY = dict.fromkeys(("client_id", "client_ip", "broker", "connection", "group_id", "txn_id", "topic", "partition"))


@pytest.mark.parametrize(
    ("scope", "numbers", "actors", "expected"),
    [
        (("client", "a@b@10.0.0.7"), {}, (), {"client_id": "a@b", "client_ip": "10.0.0.7"}),
        (("client", "app@[::1]"), {}, (), {"client_id": "app", "client_ip": "::1"}),
        (("client", "@10.0.0.7"), {}, (), {"client_ip": "10.0.0.7"}),
        (("client", "(no client id)@10.0.0.7"), {}, (), {"client_ip": "10.0.0.7"}),
        (("client", "10.0.0.7"), {}, (), {"client_ip": "10.0.0.7"}),
        (("address", "10.0.0.7"), {}, (), {"client_ip": "10.0.0.7"}),
        (("partition", "or-ders-3"), {}, (), {"topic": "or-ders", "partition": 3}),
        (("partition", "orders"), {}, (), {}),
        (("topic", "orders"), {"topic": "other", "partition": 2}, (), {"topic": "orders", "partition": 2}),
        (("broker", "node 3"), {"broker": "b:9092"}, (), {"broker": "node 3"}),
        (("transaction", "t"), {"group": 7}, (), {"txn_id": "t"}),
        (
            ("group", "g"), {"partition": "orders-1", "broker": "b:9092"},
            (Actor("victim", "10.0.0.1", "v"), Actor("culprit", "10.0.0.2", None)),
            {"group_id": "g", "topic": "orders", "partition": 1, "broker": "b:9092", "client_ip": "10.0.0.2"},
        ),
        (("connection", "17"), {}, (Actor("victim", "10.0.0.1", "v"),), {
            "connection": 17, "client_id": "v", "client_ip": "10.0.0.1",
        }),
    ],
)  # fmt: skip
def test_who_and_what_is_concerned(
    scope: tuple[str, str], numbers: dict[str, Any], actors: tuple[Actor, ...], expected: dict[str, Any]
) -> None:
    finding = Finding(
        "id", "group.x", Scope(*scope), Severity.WARN, Confidence.PROVEN, "", "", 1, 2, "", "", (), (),
        numbers=numbers, actors=actors,
    )  # fmt: skip
    (row,) = arrow.batch(FINDINGS, list(finding_rows("c", [finding]))).to_pylist()
    assert {name: row[name] for name in NOBODY} == NOBODY | expected


def test_only_one_connection_is_named() -> None:
    finding = Finding(
        "id", "group.x", Scope("group", "g"), Severity.WARN, Confidence.PROVEN, "", "", 1, 2, "", "", (), ()
    )
    finding.prove(Evidence(0, 1, 5, "trigger", "\ud800"))
    (row,) = arrow.batch(FINDINGS, list(finding_rows("c", [finding]))).to_pylist()
    assert row["connection"] == 5
    assert row["evidence"][0]["note"] == "?"
    finding.prove(Evidence(3, 1, 6, "trigger", ""))
    (row,) = arrow.batch(FINDINGS, list(finding_rows("c", [finding]))).to_pylist()
    assert row["connection"] is None
    assert row["evidence"][1]["exchange"] == 3
