"""Captures with a snap length (tcpdump -s): headers, pairs and latencies are those of whole packets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.captures import files, traffic


def facts(line: dict[str, Any]) -> tuple[Any, ...]:
    """The facts that headers give, and the times."""
    times = [line[side] and (line[side]["timestamp"], line[side]["size"]) for side in ("request", "response")]
    names = ("client", "broker", "api", "api_version", "correlation_id", "latency_ms")
    return (*(line[name] for name in names), *times)


def certain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: certain(member) for name, member in value.items() if name != "guessed"}
    return [certain(member) for member in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", [traffic.LIBRDKAFKA, traffic.KAFKA_1_1, traffic.KAFKA_0_8])
@pytest.mark.parametrize("snap", [96, 128, 200])
def test_what_is_left_is_right(path: Path, snap: int, tmp_path: Path) -> None:
    whole = traffic.exchanges(traffic.exported(path))
    lines = traffic.exported(files.write(tmp_path / "cut", files.pcap(traffic.packets(path), snap=snap)))
    cut = traffic.exchanges(lines)
    assert [facts(line) for line in cut] == [facts(line) for line in whole]
    assert (lines[-1]["gaps"], lines[-1]["resyncs"], lines[-1]["not_kafka"]) == (0, 0, 0)
    assert lines[-1]["cut"] > 50
    for line, other in zip(cut, whole, strict=True):
        assert line["status"] in {other["status"], "cut", "no_response"}
        if snap >= 128:
            assert line["client_id"] == other["client_id"]
        for side in ("request", "response"):
            if line[side] is not None and line[side]["body"] is not None:
                # if one half is cut, the reading of bytes in the other is guessed, and marked so
                assert certain(line[side]["body"]) == certain(other[side]["body"])
                assert not any(problem["where"] == side for problem in line["problems"])


def test_less_than_a_header_gives_nothing(tmp_path: Path) -> None:
    """68 bytes of a packet hold no Kafka header: there are connections, and no exchanges are guessed."""
    path = files.write(tmp_path / "cut", files.pcap(traffic.packets(traffic.KAFKA_1_1), snap=68))
    assert traffic.exchanges(traffic.exported(path)) == []
