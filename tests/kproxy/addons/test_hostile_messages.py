"""Hostile text in every field of every message, in labels of metrics, in spans and in what a live run prints."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import generate_latest

from kproxy.addons.metrics import Metrics
from kproxy.addons.traces import Traces
from tests.decoders.test_escaping import controls
from tests.kproxy.addons.support import nothing, observe
from tests.kproxy.addons.test_traces import attributes, collecting
from tests.support import hostile_messages


def test_no_label_and_no_span_controls_a_terminal(tmp_path: Path) -> None:
    capture = hostile_messages.capture(tmp_path / "messages.pcap")
    metrics = Metrics()
    with collecting() as collector:
        observe(capture, metrics, Traces(collector.endpoint, 1.0, nothing))
    scraped = generate_latest(metrics.registry).decode()
    assert "forged" in scraped
    assert not controls(scraped) - {"\n"}
    told = [str(value) for span in collector.spans for value in (span.name, *attributes(span).values())]
    assert len(collector.spans) > 80
    assert any("forged" in one for one in told)
    assert not [one for one in told if controls(one)]
