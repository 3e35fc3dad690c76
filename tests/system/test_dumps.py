"""What the tools of today print, read again: the bytes they were given, or what tshark finds in the same capture."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from kproxy.captures.dumps import bytes_of
from kproxy.captures.opening import open_source
from kproxy.captures.reader import Reader
from kproxy.decoders.byhand import Asked, Kind, Opener
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.schema import definitions
from kproxy.decoders.view import View
from tests.support.require import require

pytestmark = pytest.mark.system

CAPTURE = Path(__file__).parent.parent / "data" / "captures" / "kafka-1.1.1.pcap"
TOOLS = (
    "xxd",
    "xxd -p",
    "xxd -c 8",
    "xxd -g 1 -u",
    "xxd -i",
    "hexdump -C",
    "hexdump -v -C",
    "hexdump",
    "od -A x -t x1z",
    "od -t x1",
    "od -A d -t x1",
    "od -v -A n -t x1",
)


def said(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize("tool", TOOLS)
def test_a_file_as_a_tool_prints_it(tool: str, tmp_path: Path) -> None:
    words = tool.split()
    require(words[0])
    path = tmp_path / "frame"
    numbers = random.Random(7)
    for size in (1, 2, 7, 8, 12, 15, 16, 17, 24, 33, 64, 100, 300):
        for data in (bytes(size), numbers.randbytes(size), bytes(size) + b"\1", b"abcdef00"[: size % 9] * size):
            if data:
                path.write_bytes(data)
                assert bytes_of(said(*words, path)) == [data], (tool, data)


@pytest.mark.parametrize("command", ["tcpdump -r {} -X", "tcpdump -r {} -XX", "tcpdump -r {} -xx", "tshark -r {} -x"])
def test_packets_as_a_tool_prints_them(command: str) -> None:
    words = [word.format(CAPTURE) for word in command.split()]
    require(words[0])
    source = open_source(CAPTURE)
    try:
        reader = Reader(source, definitions())
        exchanges = [item for item in reader if isinstance(item, Exchange)]
        asked = sorted(bytes(one.request.data(source)) for one in exchanges if one.request)
        answered = sorted(bytes(one.response.data(source)) for one in exchanges if one.response)
    finally:
        source.close()
    found = [one for piece in bytes_of(said(*words)) for one in Opener(definitions(), Asked(), View()).open(piece)]
    whole = [one for one in found if not one.problems]
    assert sorted(one.given for one in whole if one.kind is Kind.REQUEST) == asked
    assert sorted(one.given for one in whole if one.kind is Kind.RESPONSE) == answered
