"""Client metrics: compressed Protobuf, and other bytes in its place."""

from __future__ import annotations

import gzip
from typing import Any

import lz4.frame
import pytest
import snappy
import zstandard
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from kproxy.decoders.embedded.telemetry import LARGEST
from kproxy.decoders.frame_tree import frame_tree
from kproxy.decoders.stream import Side
from kproxy.decoders.view import View
from tests.decoders.embedded.support import lines, text
from tests.support.scripts import eyes, request, response

PUSH = 72


def metrics() -> bytes:
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add()
    metric.name = "org.apache.kafka.producer.connection.count"
    metric.gauge.data_points.add().as_double = 3.5
    whole: bytes = data.SerializeToString()
    return whole


def push(data: bytes, compression: int, view: View | None = None) -> dict[str, Any]:
    (line,) = lines(
        (request(PUSH, 0, 1, compressionType=compression, metrics=data), response(PUSH, 0, 1)), view=view
    )  # fmt: skip
    return line


PACKED = {
    0: metrics(),
    1: gzip.compress(metrics()),
    2: snappy.compress(metrics()),
    3: lz4.frame.compress(metrics()),
    4: zstandard.compress(metrics()),
}


@pytest.mark.parametrize("compression", PACKED)
def test_metrics_in_every_compression(compression: int) -> None:
    line = push(PACKED[compression], compression)
    shown = line["request"]["body"]["metrics"]
    assert shown["base64"] == text(PACKED[compression])
    (metric,) = shown["decoded"]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    assert metric == {
        "name": "org.apache.kafka.producer.connection.count", "gauge": {"dataPoints": [{"asDouble": 3.5}]},
    }  # fmt: skip
    assert line["problems"] == []


@pytest.mark.parametrize(
    ("data", "compression", "code"),
    [
        (b"\xff\xff\xff", 0, "bad_length"),
        (b"\xff\xff\xff", 1, "decompression_failed"),
        (metrics(), 5, "decompression_failed"),
        (metrics(), -1, "decompression_failed"),
        (gzip.compress(bytes(LARGEST + 1)), 1, "decompression_limit"),
        (bytes(LARGEST + 1), 0, "decompression_limit"),
    ],
)
def test_what_is_no_metrics_is_a_problem(data: bytes, compression: int, code: str) -> None:
    line = push(data, compression)
    assert line["request"]["body"]["metrics"] == text(data)
    assert [(problem["path"], problem["code"]) for problem in line["problems"]] == [("metrics", code)]


def test_the_limit_of_batches_holds_here_too() -> None:
    line = push(PACKED[1], 1, View(batch_limit=10))
    assert [problem["code"] for problem in line["problems"]] == ["decompression_limit"]


def test_the_tree_of_metrics() -> None:
    root = frame_tree(request(PUSH, 0, 1, metrics=metrics()), Side.CLIENT, None, None, eyes())
    (node,) = [node for node in root.walk() if node.name == "metrics"]
    assert node.label == "OTLP metrics"
    assert node.unopened
    while node.children:
        assert (node.children[0].start, node.children[0].end) == (node.start, node.end)
        node = node.children[0]
    assert node.value == "org.apache.kafka.producer.connection.count"
    assert node.path.startswith("metrics.resourceMetrics[0].scopeMetrics[0].metrics[0]")
