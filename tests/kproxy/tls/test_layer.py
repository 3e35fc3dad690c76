"""The layer by itself: what it makes of bytes, however they are cut."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.runs.settings import TlsSettings
from kproxy.tls import layer as layers
from kproxy.tls.contexts import ClientSide
from kproxy.tls.layer import HandshakeError, Layer
from tests.support.certificates import TestCa


class Outer:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("10.0.0.1", 5), "sockname": ("10.0.0.2", 9092)}.get(name, default)


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> ClientSide:
    directory: Path = tmp_path_factory.mktemp("certificates")
    files = TestCa(directory).leaf("front", "localhost")
    return ClientSide(TlsSettings(in_certificate=",".join(map(str, files))), [], None)


def layered(side: ClientSide) -> tuple[Layer, Outer]:
    return Layer(asyncio.Protocol(), lambda incoming, outgoing, _: side.session(incoming, outgoing, "")), Outer()


async def greeted(side: ClientSide, pieces: list[bytes]) -> tuple[HandshakeError, Outer]:
    """How a handshake ends in which the client sends these bytes and no more."""
    layer, outer = layered(side)
    layer.connection_made(outer)
    for piece in pieces:
        layer.data_received(piece)
    layer.eof_received()
    with pytest.raises(HandshakeError) as raised:
        await layer.ready
    assert outer.closed
    return raised.value, outer


async def test_the_first_bytes_are_kept_however_they_come(side: ClientSide) -> None:
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x14\0\x12\0\x03\0\0\0\x01\0\x04test\0\0"):
        failure, _ = await greeted(side, [bytes([byte]) for byte in data])
        assert failure.first == data[:8]


@settings(max_examples=37, deadline=None)
@given(pieces=st.lists(st.binary(max_size=40), max_size=8), like_tls=st.booleans())
def test_any_bytes_end_in_a_failure_with_a_name(side: ClientSide, pieces: list[bytes], like_tls: bool) -> None:
    head = [b"\x16\x03\x01\x00\x40\x01"] if like_tls else []
    failure, _ = asyncio.run(greeted(side, [*head, *pieces]))
    assert failure.first == b"".join([*head, *pieces])[: len(failure.first)]


async def test_whoever_is_silent_is_left(side: ClientSide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "HANDSHAKE_SECONDS", 0.0)
    layer, outer = layered(side)
    layer.connection_made(outer)
    with pytest.raises(HandshakeError) as raised:
        await layer.ready
    assert raised.value.late
    assert outer.closed
