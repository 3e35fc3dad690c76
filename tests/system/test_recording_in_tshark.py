"""Wireshark's opinion of what the recorder writes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from kproxy.captures.reader import read
from kproxy.core.brokers import split_address
from kproxy.core.selection import Choice
from kproxy.decoders.exchange import Exchange, Status
from kproxy.decoders.filters import parse
from kproxy.decoders.schema import definitions
from kproxy.recording.recorder import Flow, Recorder, SelectedFlow
from kproxy.recording.sinks import File, pcapng_header
from tests.captures import traffic
from tests.kproxy.core.frames import response

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]


def shown(path: Path, wanted: str) -> str:
    arguments = ["tshark", "-r", str(path), "-Y", wanted, "-o", "ip.check_checksum:TRUE"]
    return subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60).stdout


def test_tshark_has_no_complaint(tmp_path: Path) -> None:
    path = tmp_path / "r.pcapng"
    header = pcapng_header("127.0.0.1:19092")
    recorder = Recorder(File(path, header), lambda _seconds, _callback: None, pytest.fail, threaded=False)
    for client, broker in ((("10.0.0.1", 51234), ("10.0.0.2", 19999)), (("::1", 51234), ("::2", 19999))):
        flow = recorder.connection(client, broker)
        for number in range(50):
            flow.data(0, bytes(10 * number))
            flow.data(1, response(12, 0, number, {}), "a comment" if number % 7 == 0 else None)
        flow.data(1, bytes(1 << 20))
        flow.end(1)
        flow.data(0, b"more")
        flow.end(0)
    recorder.close()
    assert len(shown(path, "tcp").splitlines()) > 200
    assert len(shown(path, "frame.comment").splitlines()) == 16
    assert shown(path, "tcp.analysis.flags or _ws.malformed or tcp.analysis.lost_segment") == ""
    assert shown(path, "ip.checksum.status == 0") == ""


def again(path: Path, choice: Choice, capture: Path) -> set[int]:
    """Record what `choice` leaves of a capture's whole exchanges, frame by frame; returns the brokers' ports."""
    header = pcapng_header("x", ["of each frame the first bytes"])
    recorder = Recorder(File(path, header), lambda *_: None, pytest.fail, choice=choice, threaded=False)
    reader = read(capture)
    flows: dict[int, Flow | SelectedFlow] = {}
    ports: set[int] = set()
    frames = [
        (frame.at, side, exchange.connection, frame)
        for exchange in reader
        if isinstance(exchange, Exchange) and exchange.status is Status.OK
        for side, frame in enumerate((exchange.request, exchange.response))
        if frame is not None
    ]
    for _, side, connection, frame in sorted(frames, key=lambda one: one[0]):
        if connection.number not in flows:
            client, broker = split_address(connection.client), split_address(connection.broker)
            ports.add(broker[1] or 0)
            flows[connection.number] = recorder.connection(
                (client[0], client[1] or 0), (broker[0], broker[1] or 0), facts=["a fact"]
            )
        flows[connection.number].data(side, frame.data(reader.source))
    for flow in flows.values():
        flow.end(0)
        flow.end(1)
    recorder.close()
    reader.close()
    return ports


def fields(path: Path, wanted: str, *names: str, ports: Iterable[int]) -> list[str]:
    arguments = ["tshark", "-r", str(path), "-Y", wanted, "-T", "fields"]
    arguments += [argument for port in ports for argument in ("-d", f"tcp.port=={port},kafka")]
    arguments += [argument for name in names for argument in ("-e", name)]
    run = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60)
    return run.stdout.splitlines()


@pytest.mark.parametrize("wanted", ["", "api != Fetch"])
def test_tshark_takes_a_cut_for_a_cut(tmp_path: Path, wanted: str) -> None:
    """Of frames that were cut it tells the same APIs, versions and ids; it misses no segment and no bytes.

    (Of a response whose request was cut it tells no API.)
    """
    expression = parse(wanted).expression
    whole, cut = tmp_path / "whole.pcapng", tmp_path / "cut.pcapng"
    ports = again(whole, Choice(None, expression, definitions()), traffic.KAFKA_1_1)
    again(cut, Choice(64, expression, definitions()), traffic.KAFKA_1_1)
    assert cut.stat().st_size < whole.stat().st_size
    found = fields(whole, "kafka", "kafka.correlation_id", "tcp.len", ports=ports)
    assert len(found) > 100
    assert fields(cut, "kafka", "kafka.correlation_id", "tcp.len", ports=ports) == found
    request = ("kafka.api_version", "kafka.api_key", "kafka.api_version", "kafka.client_id")
    assert fields(cut, *request, ports=ports) == fields(whole, *request, ports=ports)
    assert shown(cut, "tcp.analysis.flags or tcp.analysis.lost_segment or tcp.analysis.ack_lost_segment") == ""
    malformed = [len(fields(path, "_ws.malformed", "frame.number", ports=ports)) for path in (whole, cut)]
    assert malformed[1] <= malformed[0]
    about = subprocess.run(["capinfos", cut], capture_output=True, text=True, check=True, timeout=60)
    assert "of each frame the first bytes" in about.stdout
    assert len(shown(cut, 'frame.comment == "a fact"').splitlines()) == len(shown(cut, "tcp.flags == 2").splitlines())
