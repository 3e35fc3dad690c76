"""Rare behaviour of clients, and other protocols: with one packet in each split, rows are those of an export."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from kproxy.captures.spark import local
from kproxy.captures.spark.read.flows import Options
from tests.captures import files
from tests.captures.spark.comparing import TABLES, assert_same, counted, exported
from tests.captures.spark.test_joined import (
    COORDINATOR,
    Talk,
    find_coordinator,
    framed,
    request,
    response,
    timed,
)

SOFTWARE = 18
HANDSHAKE = 17
FIRST = 50_000
"""Client port of the first conversation."""
LAST = (1 << 31) - 1
DICE = random.Random(11)


def pipelined(talk: Talk) -> list[bytes]:
    """Several requests in one packet, responses divided among several packets."""
    asked = talk.send(0, b"".join(find_coordinator(number) for number in range(6)))
    answers = b"".join(response(number, COORDINATOR) for number in range(6))
    return [asked, *(talk.send(1, answers[at : at + 9]) for at in range(0, len(answers), 9))]


def correlations(talk: Talk) -> list[bytes]:
    """Correlation ids that wrap, one reused after its response, and one reused before it."""
    numbers = (LAST - 1, LAST, -LAST - 1, -LAST, 5, 5)
    frames = []
    for number in numbers:
        frames += [talk.send(0, find_coordinator(number)), talk.send(1, response(number, COORDINATOR))]
    frames += [talk.send(0, find_coordinator(5)) for _ in range(2)]
    return frames + [talk.send(1, response(5, COORDINATOR)) for _ in range(2)]


def produced_without_reply(talk: Talk) -> list[bytes]:
    body = struct.pack(">hi", 0, 1000) + struct.pack(">i", 0)
    asked = [talk.send(0, request(0, 2, number, body)) for number in range(3)]
    return [*asked, talk.send(0, find_coordinator(3)), talk.send(1, response(3, COORDINATOR))]


def too_large(talk: Talk) -> list[bytes]:
    """A frame length that no broker accepts, after an exchange."""
    before = [talk.send(0, find_coordinator(1)), talk.send(1, response(1, COORDINATOR))]
    huge = struct.pack(">i", LAST) + find_coordinator(2)[4:]
    return [*before, talk.send(0, huge), *(talk.send(0, find_coordinator(number)) for number in range(3, 6))]


def raw_tokens(talk: Talk) -> list[bytes]:
    """SaslHandshake v0 and tokens of GSSAPI, which have no header."""
    handshake = framed(struct.pack(">hhi", HANDSHAKE, 0, 1) + b"\0\1c" + b"\0\6GSSAPI")
    mechanisms = struct.pack(">hi", 0, 1) + b"\0\6GSSAPI"
    frames = [talk.send(0, handshake), talk.send(1, response(1, mechanisms))]
    frames += [talk.send(side, framed(b"\x60" + DICE.randbytes(300))) for side in (0, 1, 0, 1)]
    return [*frames, talk.send(0, find_coordinator(2)), talk.send(1, response(2, COORDINATOR))]


def version_too_new(talk: Talk) -> list[bytes]:
    """ApiVersions in a version unknown to the broker, which answers with version 0; then the client asks again."""
    known = struct.pack(">i", 1) + struct.pack(">hhh", SOFTWARE, 0, 0)
    asked = [talk.send(0, request(SOFTWARE, 99, 1, b"\2c\2" + b"1\0", tags=b"\0"))]
    asked.append(talk.send(1, response(1, struct.pack(">h", 35) + known)))
    asked.append(talk.send(0, request(SOFTWARE, 0, 2, b"")))
    asked.append(talk.send(1, response(2, struct.pack(">h", 0) + known)))
    return [*asked, talk.send(0, find_coordinator(3)), talk.send(1, response(3, COORDINATOR))]


def encrypted(talk: Talk) -> list[bytes]:
    hello = b"\x16\x03\x01\x00\x40\x01\x00\x00\x3c\x03\x03" + DICE.randbytes(58)
    return [talk.send(0, hello), *(talk.send(side, b"\x17\x03\x03\1\0" + DICE.randbytes(256)) for side in (1, 0, 1))]


def anything(talk: Talk) -> list[bytes]:
    return [talk.send(number % 2, DICE.randbytes(DICE.randrange(1, 900))) for number in range(8)]


EVERY = (
    pipelined, correlations, produced_without_reply, too_large, raw_tokens, version_too_new, encrypted, anything,
)  # fmt: skip


@pytest.mark.parametrize("size", [1, 1 << 40])
def test_every_row_is_that_of_an_export(size: int, tmp_path: Path) -> None:
    frames = []
    for number, said in enumerate(EVERY):
        talk = Talk(FIRST + number)
        frames += [*talk.opening, *said(talk)]
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap(timed(frames)))
    expected = exported([path])
    found = local.tables([path], Options(tuple(TABLES)), size=size)
    assert_same({name: counted(found[name].to_pylist()) for name in TABLES}, expected)
    statuses = {(dict(row)["client_port"] - FIRST, dict(row)["status"]) for row in expected["exchanges"]}
    kinds = {dict(row)["kind"] for row in expected["anomalies"]}
    assert {EVERY[number].__name__ for number, status in statuses if status == "ok"} >= {
        "pipelined", "correlations", "produced_without_reply", "too_large", "raw_tokens", "version_too_new",
    }  # fmt: skip
    assert {status for _, status in statuses} >= {"ok", "no_reply_expected", "no_response", "undecodable", "tls"}
    assert kinds >= {"oversize_frame", "resync", "repeated_correlation_id", "unknown_version", "tls"}
