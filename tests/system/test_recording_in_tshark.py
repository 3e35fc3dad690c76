"""Wireshark's opinion of what the recorder writes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kproxy.recorder import Recorder
from kproxy.sinks import File, pcapng_header
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
