"""What a real broker forwards to its controller, taken from the wire."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # it marks none of its names as exported
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from kproxy.captures.export.jsonl import JsonLines
from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from tests.support.brokers import cluster
from tests.support.tcpdump import captured

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

TOPIC = "forwarded"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("envelope") / "envelope.pcap"
    with cluster("4.4.0", 1) as broker, captured(path, f"tcp port {broker.controllers[0]}"):
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(60)
        entry = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
        config = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[entry])
        for future in admin.incremental_alter_configs([config]).values():
            future.result(60)
    return path


def envelopes(capture: Path) -> list[dict[str, Any]]:
    with closing(read([capture])) as reader:
        lines = JsonLines(reader)
        return [lines.line(item) for item in reader if isinstance(item, Exchange) and item.api_key == 58]


def test_forwarded_requests_and_their_responses(capture: Path) -> None:
    lines = envelopes(capture)
    assert len(lines) >= 2
    inner = {}
    for line in lines:
        assert line["problems"] == []
        asked = line["request"]["body"]
        assert asked["clientHostAddress"]["decoded"] == "127.0.0.1"
        assert asked["requestPrincipal"]["decoded"]["name"] == "ANONYMOUS"
        answered = line["response"]["body"]["responseData"]["decoded"]
        assert answered["api"] == asked["requestData"]["decoded"]["api"]
        header = asked["requestData"]["decoded"]["header"]
        assert answered["header"]["correlationId"] == header["correlationId"]
        inner[answered["api"]] = line
    created = inner["CreateTopics"]
    assert created["request"]["body"]["requestData"]["decoded"]["body"]["topics"][0]["name"] == TOPIC
    assert created["response"]["body"]["responseData"]["decoded"]["body"]["topics"][0]["errorCode"] == 0
    assert created["request"]["body"]["requestData"]["redacted"] is True
    altered = inner["IncrementalAlterConfigs"]["request"]["body"]["requestData"]["decoded"]["body"]
    assert altered["resources"][0]["configs"][0] == {"name": "retention.ms", "configOperation": 0, "value": "60000"}
