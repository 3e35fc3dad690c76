"""What administrators delete or change: from requests to findings."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.findings.model import Finding
from tests.captures.findings.test_wire import Talk


def found(*exchanges: tuple[int, int, dict[str, Any], dict[str, Any]]) -> list[Finding]:
    talk = Talk()
    for exchange in exchanges:
        talk.ask(*exchange)
    return [one for one in talk.found() if one.rule == "admin.destructive"]


@pytest.mark.parametrize(
    ("key", "version", "asked", "answered", "text"),
    [
        (
            20, 6, {"topics": [{"name": "orders"}, {"name": "bills"}]},
            {"responses": [{"name": "orders"}, {"name": "bills"}]}, "deleted topics: orders; bills",
        ),
        (20, 1, {"topicNames": ["orders"]}, {"responses": [{"name": "orders"}]}, "deleted topics: orders"),
        (
            21, 1,
            {"topics": [{"name": "t", "partitions": [
                {"partitionIndex": 0, "offset": 7}, {"partitionIndex": 1, "offset": -1},
            ]}]},
            {"topics": []}, "deleted records: t-0 up to 7; t-1 up to the end",
        ),
        (42, 1, {"groupsNames": ["g"]}, {"results": [{"groupId": "g"}]}, "deleted groups: g"),
        (47, 0, {"groupId": "g", "topics": []}, {"topics": []}, "deleted committed offsets: g"),
        (
            44, 1,
            {"resources": [{"resourceType": 2, "resourceName": "t", "configs": [
                {"name": "retention.ms", "configOperation": 0, "value": "1"},
            ]}]},
            {"responses": [{"resourceType": 2, "resourceName": "t"}]}, "changed configurations: topic t: retention.ms",
        ),
        (43, 1, {"electionType": 1}, {"replicaElectionResults": []}, "elected leaders that may lack records: all"),
        (
            31, 1, {"filters": [{"resourceTypeFilter": 2, "resourceNameFilter": None, "principalFilter": "User:a",
                                 "hostFilter": None, "operation": 1, "permissionType": 1}]},
            {"filterResults": []}, "deleted ACLs: any resource for User:a",
        ),
        (
            49, 0,
            {"entries": [{"entity": [{"entityType": "client-id", "entityName": "app"}], "ops": [
                {"key": "producer_byte_rate", "value": 1.0, "remove": False},
            ]}]},
            {"entries": []}, "changed quotas: client-id app: producer_byte_rate",
        ),
    ],
)  # fmt: skip
def test_a_change_is_told_with_who_made_it(
    key: int, version: int, asked: dict[str, Any], answered: dict[str, Any], text: str
) -> None:
    (finding,) = found((key, version, asked, answered))
    assert text in finding.summary
    assert finding.summary.startswith("app@")


def test_what_is_refused_or_only_validated_is_quiet() -> None:
    refused = {"responses": [{"name": "orders", "errorCode": 29}]}
    assert not found((20, 6, {"topics": [{"name": "orders"}]}, refused))
    resource = {"resourceType": 2, "resourceName": "t", "configs": [{"name": "retention.ms", "value": "1"}]}
    asked = {"resources": [resource | {"configs": []}], "validateOnly": True}
    assert not found((44, 1, asked, {"responses": []}))
    assert not found((43, 1, {"electionType": 0, "topicPartitions": []}, {"replicaElectionResults": []}))


def test_values_are_withheld_and_many_names_counted() -> None:
    configs = [{"name": "sasl.jaas.config", "configOperation": 0, "value": "password=secret"}]
    resources = [{"resourceType": 2, "resourceName": f"t{number}", "configs": configs} for number in range(30)]
    (finding,) = found((44, 1, {"resources": resources}, {"responses": []}))
    assert "secret" not in f"{finding.summary}{finding.evidence}"
    assert "and more (25)" in finding.summary
