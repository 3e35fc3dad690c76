"""Exchanges that stage 3 opens are those that stage 2 packed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from kproxy.captures.reader import read
from kproxy.captures.spark.read.opening import pack, unpack
from kproxy.decoders.exchange import Exchange
from tests.captures import files, traffic


def exchanges(path: Any) -> list[Exchange]:
    return [item for item in read(path) if isinstance(item, Exchange)]


@pytest.mark.parametrize("snap", [0, 300])
def test_nothing_is_lost(snap: int, tmp_path: Any) -> None:
    """Requests and responses of many packets, without an answer, with problems, and during authentication."""
    path, taken = tmp_path / "a.pcap", traffic.packets(traffic.KAFKA_1_1)[5:]
    path.write_bytes(files.pcap(taken, snap=snap) if snap else files.pcap(taken))
    given = exchanges(path)
    assert len(given) > 200
    assert any(one.request is None or one.response is None for one in given)
    assert any(len(one.response.spans) > 2 for one in given if one.response is not None)
    assert any(one.problems for one in given) == bool(snap)
    for number, one in enumerate(given):
        found = unpack(pack(one, number, "client 1", found=bool(number % 2)))
        assert (found.epoch, found.software, found.found) == (number, "client 1", bool(number % 2))
        expected, other = asdict(one), asdict(found.exchange)
        for frame in (expected["request"], expected["response"]):
            if frame is not None:
                frame["comments"] = list(frame["comments"])
        for frame in (other["request"], other["response"]):
            if frame is not None:
                frame["comments"] = list(frame["comments"])
        assert other == expected


def test_few_bytes_are_shuffled(tmp_path: Any) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap(traffic.packets(traffic.LIBRDKAFKA)))
    given = [one for one in exchanges(path) if not one.problems and one.session is None]
    assert sum(len(pack(one, 0, None, found=False)) for one in given) < 330 * len(given)
