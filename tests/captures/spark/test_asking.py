"""Filters that can be decided only when all flows are read select the same rows as in an export."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kproxy.captures.spark.read.asking import asks_others
from kproxy.decoders.filters import parse
from tests.captures import files, traffic
from tests.captures.spark.comparing import exported
from tests.captures.spark.test_damaged import again, assert_filtered
from tests.support.thinned import thinned


@pytest.mark.parametrize(
    ("capture", "text"),
    thinned(
        [
            (traffic.LIBRDKAFKA, "topic == shop-orders"),
            (traffic.LIBRDKAFKA, "not topic == shop-orders and api == Fetch"),
            (traffic.LIBRDKAFKA, "broker == 1 and api in (Produce, ApiVersions)"),
            (traffic.KAFKA_1_1, "broker == 2 and api != Metadata"),
            (traffic.KAFKA_1_1, "exchange > 20 and exchange <= 60"),
            (traffic.KAFKA_1_1, "connection in (2, 5) or topic == adm-t or api == SaslHandshake"),
            (traffic.LIBRDKAFKA, "topic and not api == Fetch and exchange > 30"),
        ],
        3,
    ),
)
def test_what_is_selected(capture: Path, text: str) -> None:
    expression = parse(text).expression
    assert expression is not None
    assert asks_others(expression)
    every, found = exported([capture])["exchanges"].total(), assert_filtered(capture, text)
    assert 0 < found["exchanges"].total() < every
    assert found["flows"].total()


@pytest.mark.parametrize(
    "text", thinned(["topic == shop-orders and exchange > 200", "connection > 20", "broker == 1"], 1)
)
def test_ports_that_are_used_again(text: str, tmp_path: Path) -> None:
    """Connections without selected exchanges do not count in epochs."""
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap(again(traffic.packets(traffic.LIBRDKAFKA), random.Random(1))))
    assert assert_filtered(path, text)["flows"].total() > 2
