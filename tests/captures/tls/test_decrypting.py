"""Captures of TLS: OpenSSL's handshakes around real Kafka traffic are decrypted to the same exchanges."""

from __future__ import annotations

import gzip
import lzma
import random
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
import zstandard

from kproxy.captures.formats.pcapng_writer import ACK, SYN, Direction
from kproxy.captures.reader import read
from kproxy.captures.tls.keylog import parse
from kproxy.captures.tls.session import CLIENT, SERVER, Session
from tests.captures import files, traffic
from tests.captures import test_seekable as seekable
from tests.captures.tls.wire import MSS, START, Wire
from tests.support.certificates import TestCa


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return TestCa(tmp_path_factory.mktemp("ca"), "ca").leaf("broker", "localhost")


@pytest.fixture(autouse=True)
def _spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@dataclass
class Said:
    """The bytes of a plain connection, as turns of (side, bytes)."""

    turns: list[tuple[int, bytes]] = field(default_factory=list)


def conversation() -> Said:
    """The longest connection of a capture of librdkafka."""
    reader = read(traffic.LIBRDKAFKA)
    by_connection: dict[int, list[tuple[int, int, bytes]]] = {}
    for line in reader:
        for side, name in enumerate(("request", "response")):
            frame = getattr(line, name, None)
            if frame is not None:
                found = by_connection.setdefault(line.connection.number, [])  # type: ignore[union-attr]
                found.append((frame.time, side, bytes(frame.data(reader.source))))
    longest = max(by_connection.values(), key=len)
    return Said([(side, data) for _, side, data in sorted(longest)])


def spoken(wire: Wire, said: Said) -> list[files.Packet]:
    for side, data in said.turns:
        wire.say(side, data)
    return wire.end()


def plain(found: list[dict[str, Any]]) -> list[Any]:
    """Facts of exchanges that do not depend on times of packets."""
    return [
        (
            *(line[name] for name in ("api", "api_version", "correlation_id", "client_id", "status")),
            *(line[side] and line[side]["body"] for side in ("request", "response")),
        )
        for line in traffic.exchanges(found)
    ]


def captured(path: Path, packets: list[files.Packet]) -> Path:
    return files.write(path, files.pcap(packets, link=101))


@pytest.fixture(scope="module")
def said() -> Said:
    return conversation()


@pytest.fixture(scope="module")
def expected(said: Said, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The facts of the same bytes on a plain connection."""
    first, second = (
        Direction(("10.0.0.1", 50000), ("10.0.0.2", 9093), 7),
        Direction(("10.0.0.2", 9093), ("10.0.0.1", 50000), 9),
    )
    sides, packets, time = (first, second), [], START
    for side, flags in ((0, SYN), (1, SYN | ACK)):
        packets.append((time, sides[side].packet(time, b"", sides[1 - side].sequence, flags)[0][28:]))
    for side, data in said.turns:
        for start in range(0, len(data), MSS):
            time += 1_000_000
            part = data[start : start + MSS]
            packets.append((time, sides[side].packet(time, part, sides[1 - side].sequence, ACK)[0][28:] + part))
    path = captured(tmp_path_factory.mktemp("plain") / "plain.pcap", packets)
    found = plain(traffic.exported(path))
    assert len(found) > 20
    return found


PACKERS = (
    gzip.compress,
    lzma.compress,
    lz4.frame.compress,
    zstandard.compress,
    lambda data: seekable.packed(data, [*range(100_000, len(data), 100_000)]),
)

KINDS: dict[str, dict[str, Any]] = {
    "1.3": {"version": ssl.TLSVersion.TLSv1_3},
    "1.2 gcm 128": {"version": ssl.TLSVersion.TLSv1_2, "ciphers": "ECDHE+AES128+AESGCM"},
    "1.2 gcm 256": {"version": ssl.TLSVersion.TLSv1_2, "ciphers": "ECDHE+AES256+AESGCM"},
    "1.2 rsa": {"version": ssl.TLSVersion.TLSv1_2, "ciphers": "DHE+AESGCM:ECDHE+AESGCM"},
    "1.2 chacha": {"version": ssl.TLSVersion.TLSv1_2, "ciphers": "CHACHA20"},
    "1.2 cbc": {"version": ssl.TLSVersion.TLSv1_2, "ciphers": "ECDHE+AES128+SHA1:ECDHE+AES128+SHA:@SECLEVEL=0"},
    "1.2 cbc sha256": {
        "version": ssl.TLSVersion.TLSv1_2,
        "ciphers": "ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA256",
    },
    "1.2 cbc sha384": {
        "version": ssl.TLSVersion.TLSv1_2,
        "ciphers": "ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES256-SHA384",
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_went_in_comes_out(
    kind: str, tmp_path: Path, certificate: tuple[Path, Path], said: Said, expected: list[Any]
) -> None:
    wire = Wire(tmp_path, certificate, **KINDS[kind])
    path = captured(tmp_path / "a.pcap", spoken(wire, said))
    found = traffic.lines(read(path, keylog=wire.log))
    assert plain(found) == expected
    assert (found[-1]["tls"], found[-1]["gaps"], found[-1]["lost"], found[-1]["not_kafka"]) == (0, 0, 0, 0)
    assert {(line["client"], line["broker"]) for line in traffic.exchanges(found)} == {
        ("10.0.0.1:50000", "10.0.0.2:9093")
    }
    (encrypted,) = traffic.exchanges(traffic.exported(path))
    assert encrypted["status"] == "tls"


def test_a_resumed_session(tmp_path: Path, certificate: tuple[Path, Path], said: Said, expected: list[Any]) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        first = Wire(tmp_path, certificate, version=version)
        first.say(SERVER, b"for the ticket")
        again = Wire(tmp_path, certificate, contexts=first.contexts, session=first.ends[0].session)
        packets = spoken(again, said)
        assert again.ends[0].session_reused
        path = captured(tmp_path / f"{version}", packets)
        assert plain(traffic.lines(read(path, keylog=first.log))) == expected


def test_a_connection_without_secrets_is_counted(
    tmp_path: Path, certificate: tuple[Path, Path], said: Said, expected: list[Any]
) -> None:
    """The capture also holds a decrypted connection and a plain one."""
    known = spoken(Wire(tmp_path, certificate), said)
    unknown = spoken(Wire(tmp_path, certificate, port=50001, logged=False), said)
    kafka = [(time, frame[14:]) for time, frame in traffic.packets(traffic.KAFKA_1_1)]
    packets = sorted(known + unknown + [(START + time - kafka[0][0], frame) for time, frame in kafka])
    found = traffic.lines(read(captured(tmp_path / "a", packets), keylog=tmp_path / "keys.log"))
    assert found[-1]["tls"] == 1
    assert found[-1]["not_kafka"] == 0
    lines = traffic.exchanges(found)
    assert len(lines) == len(expected) + 1 + 249
    assert sorted(map(str, plain([line for line in lines if line["client"] == "10.0.0.1:50000"]))) == sorted(
        map(str, expected)
    )
    (opaque,) = (line for line in lines if line["client"] == "10.0.0.1:50001")
    assert opaque["status"] == "tls"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("seed", range(3))
def test_a_lost_packet_costs_its_records_only(
    version: ssl.TLSVersion, seed: int, tmp_path: Path, certificate: tuple[Path, Path], said: Said, expected: list[Any]
) -> None:
    wire = Wire(tmp_path, certificate, version=version)
    packets = spoken(wire, said)
    data = [i for i in range(len(packets) // 3, len(packets) * 2 // 3) if len(packets[i][1]) > 60]
    del packets[random.Random(seed).choice(data)]
    found = traffic.lines(read(captured(tmp_path / "a", packets), keylog=wire.log))
    assert found[-1]["gaps"] == 1
    ok = [line for line in plain(found) if line in expected]
    assert len(ok) >= len(expected) - 4
    wrong = [line for line in traffic.exchanges(found) if line["status"] == "ok" and plain([line])[0] not in expected]
    assert not wrong


def test_secrets_in_the_capture(
    tmp_path: Path, certificate: tuple[Path, Path], said: Said, expected: list[Any]
) -> None:
    wire = Wire(tmp_path, certificate)
    packets = spoken(wire, said)
    log = wire.log.read_bytes()

    def pcapng(share: list[files.Packet]) -> bytes:
        import struct

        secrets = files.block(0x0A, struct.pack("<II", 0x544C534B, len(log)) + log)
        blocks = [files.enhanced(0, time // 1000, data) for time, data in share]
        return b"".join([files.section(), secrets, files.interface(101), *blocks])

    # longer than the part that is unpacked at first, so that some secrets come later
    log += b"".join(b"# %s\n" % random.Random(each).randbytes(500).hex().encode() for each in range(2000))
    for pack in PACKERS:
        path = files.write(tmp_path / "a.packed", pack(pcapng(packets)))
        assert plain(traffic.exported(path)) == expected, pack
    halves = [files.write(tmp_path / name, pcapng(packets[i::2])) for i, name in enumerate("ab")]
    assert plain(traffic.lines(read(halves))) == expected


def test_key_updates() -> None:
    """Python's ssl cannot send one, so this tests that the next secret is RFC 8446's and sequence numbers restart."""
    from kproxy.captures.tls.ciphers import SUITES, Aead13, _xor, expand_label, next_secret

    suite, random_bytes, first = SUITES[0x1301], bytes(range(32)), b"s" * 32
    session = Session(
        {
            (f"{who}_{what}", random_bytes): first
            for who in ("CLIENT", "SERVER")
            for what in ("HANDSHAKE_TRAFFIC_SECRET", "TRAFFIC_SECRET_0")
        }
    )

    def record(secret: bytes, number: int, kind: int, content: bytes) -> bytes:
        aead = Aead13(suite, secret)
        body = content + bytes((kind,))
        header = b"\x17\x03\x03" + (len(body) + 16).to_bytes(2, "big")
        nonce = _xor(expand_label(suite.hash, secret, b"iv", 12), number)
        return header + aead._aead.encrypt(nonce, body, header)

    def hello(kind: int, body: bytes) -> bytes:
        message = bytes((kind,)) + len(body).to_bytes(3, "big") + body
        return b"\x16\x03\x03" + len(message).to_bytes(2, "big") + message

    session.feed(CLIENT, hello(1, b"\3\3" + random_bytes + b"\0"))
    session.feed(SERVER, hello(2, b"\3\3" + bytes(32) + b"\0\x13\x01\0\0\6\0\x2b\0\2\3\4"))
    session.feed(CLIENT, record(first, 0, 22, b"\x14\0\0\0"))
    assert session.feed(CLIENT, record(first, 0, 23, b"before")) == b"before"
    assert session.feed(CLIENT, record(first, 1, 22, b"\x18\0\0\1\0")) == b""
    second = next_secret(suite, first)
    assert second != first
    assert session.feed(CLIENT, record(second, 0, 23, b"after") + record(second, 1, 23, b"wards")) == b"afterwards"


def test_a_key_log() -> None:
    random_bytes = "ab" * 32
    log = f"# a comment\nCLIENT_RANDOM {random_bytes} {'cd' * 48}\r\nnonsense\nX {random_bytes[:-1]} 00\n\xff\n"
    assert parse(log.encode("latin-1")) == {("CLIENT_RANDOM", bytes.fromhex(random_bytes)): b"\xcd" * 48}


@pytest.mark.parametrize("seed", range(40))
def test_damaged_records_give_no_garbage(
    seed: int, tmp_path: Path, certificate: tuple[Path, Path], said: Said, expected: list[Any]
) -> None:
    wire = Wire(tmp_path, certificate, version=ssl.TLSVersion.TLSv1_2 if seed % 2 else ssl.TLSVersion.TLSv1_3)
    packets = spoken(wire, Said(said.turns[:12]))
    dice = random.Random(seed)
    for _ in range(dice.choice((1, 3))):
        i = dice.randrange(2, len(packets))
        time, frame = packets[i]
        if len(frame) > 45:
            at = dice.randrange(40, len(frame))
            packets[i] = time, frame[:at] + bytes((frame[at] ^ 0x55,)) + frame[at + 1 :]
    found = traffic.lines(read(captured(tmp_path / "a", packets), keylog=wire.log))
    for line in traffic.exchanges(found):
        assert line["status"] != "ok" or plain([line])[0] in expected
