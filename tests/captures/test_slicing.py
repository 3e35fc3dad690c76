"""Slices hold the chosen exchanges and nothing else."""

from __future__ import annotations

import json
import random
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kproxy.captures.formats.pcapng_writer import SYN, Direction, file_header
from kproxy.captures.reader import read
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from kproxy.decoders.exchange import Exchange
from tests.captures import files, traffic

CAPTURES = (traffic.LIBRDKAFKA, traffic.KAFKA_0_8, traffic.KAFKA_1_1, traffic.DATA / "golden" / "golden-4.4.0.pcap")


def cut(capture: Path, out: Path, *arguments: str) -> Path:
    command = ["export", str(capture), "--format", "pcapng", "--show-secrets", "-o", str(out), *arguments]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == Exit.OK, result.stderr
    return out


def exported(capture: Path) -> list[dict[str, Any]]:
    """Exported exchanges in order of number, with times in microseconds, without what a slice cannot know."""
    found = traffic.exchanges(traffic.exported(capture))
    text = re.sub(r'(\.\d{6})000Z"', r'\1Z"', json.dumps(found))
    text = text.replace(', "guessed": true', "")  # a group's protocol, which a slice may not hold
    lines: list[dict[str, Any]] = sorted(json.loads(text), key=lambda line: line["exchange"])
    for line in lines:
        line.pop("reason", None)  # a slice ends with its last frame
        line.pop("topics", None)  # names may come from exchanges outside of the slice
    return lines


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_a_slice_of_everything_has_the_same_exchanges(capture: Path, tmp_path: Path) -> None:
    assert exported(cut(capture, tmp_path / "all.pcapng")) == exported(capture)


@pytest.mark.parametrize("expression", ["api == Fetch", "api == Produce", "latency > 50ms", "error"])
def test_a_slice_has_whole_frames_of_what_was_selected_alone(expression: str, tmp_path: Path) -> None:
    numbers = selected(traffic.KAFKA_1_1, expression)
    wanted = [line for line in exported(traffic.KAFKA_1_1) if line["exchange"] in numbers]
    out = cut(traffic.KAFKA_1_1, tmp_path / "some.pcapng", "-Y", expression)
    found = exported(out)
    for line in (*wanted, *found):
        line["exchange"] = line["connection"] = 0
    assert wanted
    assert found == wanted
    packets = read(out)
    sizes = sum(
        frame.size + 4
        for batch in packets.batches()
        for item in batch
        if isinstance(item, Exchange)
        for frame in (item.request, item.response)
        if frame is not None
    )
    assert sizes == sum(line[side]["size"] + 4 for line in wanted for side in ("request", "response") if line[side])
    assert packets.health.lost == packets.health.gaps == 0


def selected(capture: Path, expression: str) -> set[int]:
    result = CliRunner().invoke(
        main, ["export", str(capture), "-Y", expression, "--format", "csv", "--columns", "exchange"]
    )
    return set(map(int, result.stdout.splitlines()[1:]))


def test_frames_that_miss_bytes_miss_as_many(tmp_path: Path) -> None:
    path = files.write(tmp_path / "short.pcap", files.pcap(traffic.packets(traffic.LIBRDKAFKA), snap=300))
    before, after = exported(path), exported(cut(path, tmp_path / "out.pcapng"))
    assert len([line for line in before if line["status"] == "cut"]) > 5
    for one, other in zip(before, after, strict=True):
        assert (one["status"], one["latency_ms"]) == (other["status"], other["latency_ms"])
        assert [one[side] and one[side]["size"] for side in ("request", "response")] == [
            other[side] and other[side]["size"] for side in ("request", "response")
        ]


@pytest.mark.parametrize("capture", CAPTURES[:3], ids=lambda path: path.stem)
def test_a_slice_of_a_capture_with_losses_has_the_same_exchanges(capture: Path, tmp_path: Path) -> None:
    """Frames that were found together, because packets before them are missing, stay in the order of their stream."""
    for seed in range(4):
        dice = random.Random(seed)
        fewer = [one for one in traffic.packets(capture) if dice.random() > 0.1]
        path = files.write(tmp_path / f"{seed}.pcap", files.pcap(fewer))
        before, after = exported(path), exported(cut(path, tmp_path / f"{seed}.pcapng"))
        names = ("client", "api_key", "correlation_id", "status", "request", "response")
        assert sorted(str([one[name] for name in names]) for one in after if not one["problems"]) == sorted(
            str([one[name] for name in names]) for one in before if not one["problems"]
        )


def test_a_token_takes_its_handshake_along(tmp_path: Path) -> None:
    client, broker = ("10.0.0.1", 40000), ("10.0.0.2", 9092)
    up, down = Direction(client, broker, 1), Direction(broker, client, 1)
    handshake = struct.pack(">hhih1sh5s", 17, 0, 1, 1, b"c", 5, b"PLAIN")
    accepted = struct.pack(">ihih5s", 1, 0, 1, 5, b"PLAIN")
    token = b"\0user\0password"
    data = file_header("test", "test")
    for time, (direction, other, payload, flags) in enumerate(
        (
            (up, down, b"", SYN),
            (up, down, handshake, 0x18),
            (down, up, accepted, 0x18),
            (up, down, token, 0x18),
            (down, up, b"", 0x18),
        )
    ):
        content = payload if flags == SYN else len(payload).to_bytes(4, "big") + payload
        before, after = direction.packet(time + 10**18, content, other.sequence, flags)
        data += before + content + after
    path = files.write(tmp_path / "sasl.pcapng", data)
    apis = [line["api"] for line in exported(path)]
    assert apis == ["SaslHandshake", "SaslToken"]
    assert [
        line["api"] for line in exported(cut(path, tmp_path / "a.pcapng", "-Y", "status == ok and size < 30"))
    ] == apis
    hidden = tmp_path / "b.pcapng"
    assert CliRunner().invoke(main, ["export", str(path), "--format", "pcapng", "-o", str(hidden)]).exit_code == Exit.OK
    assert b"password" not in hidden.read_bytes()
    assert [line["api"] for line in exported(hidden)] == apis


def test_comments_stay(tmp_path: Path) -> None:
    blocks = [
        files.enhanced(0, time // 1000, frame, comments=["seen"] if traffic.payload(frame) else [])
        for time, frame in traffic.packets(traffic.LIBRDKAFKA)[:40]
    ]
    path = files.write(tmp_path / "told.pcapng", b"".join([files.section(), files.interface(), *blocks]))
    before = exported(path)
    assert before[0]["request"]["comments"] == ["seen"]
    after = exported(cut(path, tmp_path / "out.pcapng"))
    assert [line["request"].get("comments") for line in after] == [line["request"].get("comments") for line in before]


def test_an_empty_slice_is_a_capture_too(tmp_path: Path) -> None:
    out = cut(traffic.LIBRDKAFKA, tmp_path / "none.pcapng", "-Y", "api == EndTxn and client.id == nobody")
    assert exported(out) == []
