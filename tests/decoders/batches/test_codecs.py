"""Each codec within its limit: with complete, cut and damaged data, and with a decompression bomb."""

from __future__ import annotations

import contextlib
import gzip
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kproxy.decoders.batches.codecs import CodecError, decompress, with_right_header_checksum, xxh32
from kproxy.decoders.problems import Code
from tests.support.thinned import thinned

ROOT = Path(__file__).parents[3]


def xerial(data: bytes, block: int = 32768) -> bytes:
    blocks = [bytes(snappy.compress(data[at : at + block])) for at in range(0, len(data), block)]
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(one)) + one for one in blocks)


def old_lz4(data: bytes) -> bytes:
    """LZ4 as Kafka wrote it before magic 1."""
    packed = bytearray(lz4.frame.compress(data, store_size=False))
    packed[6] = xxh32(bytes(packed[:6])) >> 8 & 0xFF
    return bytes(packed)


def zstd_streamed(data: bytes) -> bytes:
    """A frame without content size, as a producer's stream writes it."""
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return stream.compress(data) + stream.flush()


COMPRESS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip members": ("gzip", lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:])),
    "snappy": ("snappy", lambda data: bytes(snappy.compress(data))),
    "xerial": ("snappy", xerial),
    "lz4": ("lz4", lz4.frame.compress),
    "lz4 linked, checked": (
        "lz4",
        lambda data: lz4.frame.compress(data, block_linked=True, content_checksum=True, block_checksum=True),
    ),
    "zstd": ("zstd", zstandard.compress),
    "zstd streamed": ("zstd", zstd_streamed),
    "zstd level 22": ("zstd", zstandard.ZstdCompressor(level=22).compress),
}
WAYS = pytest.mark.parametrize("way", COMPRESS)


@WAYS
@given(data=st.binary(min_size=1, max_size=2000).map(lambda data: data * (1 + data[0])))
def test_what_was_compressed_comes_back(way: str, data: bytes) -> None:
    codec, compress = COMPRESS[way]
    packed = compress(data)
    assert decompress(codec, memoryview(packed)) == data
    assert decompress(codec, packed, limit=len(data)) == data
    with pytest.raises(CodecError) as caught:
        decompress(codec, packed, limit=len(data) - 1)
    assert caught.value.code is Code.DECOMPRESSION_LIMIT


@WAYS
def test_more_than_a_piece(way: str) -> None:
    codec, compress = COMPRESS[way]
    data = b"".join(b"%d," % number for number in range(150_000))
    assert decompress(codec, compress(data)) == data


@WAYS
def test_what_is_cut_fails(way: str) -> None:
    codec, compress = COMPRESS[way]
    packed = compress(b"a few words, a few words more, " * 9)
    whole = {16} if way == "xerial" else set()  # a header without blocks is complete and empty
    if way == "gzip members":
        whole = {len(gzip.compress((b"a few words, a few words more, " * 9)[:100]))}
    for cut in range(len(packed)):
        if cut in whole:
            continue
        with pytest.raises(CodecError) as caught:
            decompress(codec, packed[:cut])
        assert caught.value.code is Code.DECOMPRESSION_FAILED


@WAYS
@given(st.data())
def test_damage_is_a_codec_error_or_other_bytes(way: str, data: st.DataObject) -> None:
    codec, compress = COMPRESS[way]
    packed = bytearray(compress(b"some words and numbers 1234567 " * 20))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CodecError):
        assert len(decompress(codec, bytes(packed), limit=10_000)) <= 10_000


@given(codec=st.sampled_from(["gzip", "snappy", "lz4", "zstd"]), data=st.binary(max_size=300), magic=st.integers(0, 2))
def test_any_bytes(codec: str, data: bytes, magic: int) -> None:
    for head in (
        b"",
        b"\x1f\x8b\x08\0",
        b"\x82SNAPPY\0\0\0\0\1\0\0\0\1",
        b"\x04\x22\x4d\x18\x60\x40",
        b"\x28\xb5\x2f\xfd",
    ):
        with contextlib.suppress(CodecError):
            assert len(decompress(codec, head + data, limit=5000, magic=magic)) <= 5000


def test_an_unknown_codec() -> None:
    with pytest.raises(CodecError) as caught:
        decompress("unknown(7)", b"x")
    assert caught.value.code is Code.DECOMPRESSION_FAILED
    assert decompress("none", memoryview(b"x")) == b"x"


def test_lz4_of_magic_0() -> None:
    """KAFKA-3160: the checksum covers too many bytes, so it is ignored."""
    data = b"old words " * 40
    packed = old_lz4(data)
    assert decompress("lz4", packed, magic=0) == data
    for magic in (1, 2):
        with pytest.raises(CodecError):
            decompress("lz4", packed, magic=magic)
    assert decompress("lz4", lz4.frame.compress(data), magic=0) == data


@pytest.mark.parametrize("options", [{}, {"content_checksum": True}, {"store_size": False}, {"block_linked": False}])
def test_the_right_checksum_of_an_lz4_header(options: dict[str, bool]) -> None:
    packed = lz4.frame.compress(b"words" * 10, **options)
    assert with_right_header_checksum(packed) == packed
    assert with_right_header_checksum(packed[:5]) == packed[:5]


def limited(statement: str, mebibytes: int = 400) -> str:
    """Output of a process that runs `statement` with at most `mebibytes` more memory than at its start."""
    return (
        "import resource, struct, sys, lz4.frame, snappy, zstandard\n"
        "from kproxy.decoders.batches.codecs import CodecError, decompress\n"
        "data = sys.stdin.buffer.read()\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (used + ({mebibytes} << 20),) * 2)\n"
        f"try:\n    {statement}\n    print('opened')\nexcept CodecError as error:\n    print(error.code)\n"
    )


def outcome(codec: str, data: bytes, mebibytes: int = 400) -> str:
    run = subprocess.run(
        [sys.executable, "-c", limited(f"decompress({codec!r}, data)", mebibytes)],
        input=data, capture_output=True, timeout=100, check=False, cwd=ROOT,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout.decode().strip()


def bomb(codec: str) -> bytes:
    """A gigabyte of zeros, compressed piece by piece."""
    piece = bytes(1 << 20)
    if codec == "gzip":
        stream = zlib.compressobj(wbits=31)
        return b"".join([stream.compress(piece) for _ in range(1024)]) + stream.flush()
    if codec == "zstd":
        zstd = zstandard.ZstdCompressor().compressobj()
        return b"".join([zstd.compress(piece) for _ in range(1024)]) + zstd.flush()
    if codec == "lz4":
        frame = lz4.frame.LZ4FrameCompressor()
        packed: bytes = frame.begin() + b"".join([frame.compress(piece) for _ in range(1024)]) + frame.flush()
        return packed
    block = bytes(snappy.compress(piece))
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(block)) + block) * 1024


@pytest.mark.parametrize("codec", thinned(["snappy", "lz4", "gzip", "zstd"], 2))
def test_a_bomb_stays_within_the_limit_in_memory(codec: str) -> None:
    assert outcome(codec, bomb(codec)) == "decompression_limit"


@pytest.mark.parametrize("claim", [1 << 20, 3 << 30, (1 << 32) - 1])
def test_what_a_snappy_block_claims_is_not_reserved(claim: int) -> None:
    prefix = bytearray()
    while claim >= 0x80:
        prefix.append(claim & 0x7F | 0x80)
        claim >>= 7
    prefix.append(claim)
    for data in (bytes(prefix) + b"\0\0", b"\x82SNAPPY\0" + bytes(8) + struct.pack(">i", len(prefix)) + prefix):
        with pytest.raises(CodecError):
            decompress("snappy", data)


@pytest.mark.parametrize("claim", [1 << 20, 100 << 30])
def test_what_a_zstd_or_lz4_frame_claims_is_not_reserved(claim: int) -> None:
    small_block = struct.pack("<I", 1 << 3 | 1)[:3] + b"x"
    frame = b"\x28\xb5\x2f\xfd" + bytes([0b1100_0000, 0x58]) + struct.pack("<Q", claim) + small_block
    assert outcome("zstd", frame) == "decompression_failed"
    wide = b"\x28\xb5\x2f\xfd" + bytes([0, 0xF8]) + small_block
    assert outcome("zstd", wide) == "decompression_failed"
    head = bytes([0x68, 0x40]) + struct.pack("<Q", claim)
    packed = b"\x04\x22\x4d\x18" + head + bytes([xxh32(head) >> 8 & 0xFF]) + struct.pack("<I", 0)
    assert outcome("lz4", packed, 300) == "decompression_failed"


SKIPPED = b"\x53\x2a\x4d\x18" + struct.pack("<I", 7) + b"skipped"
"""A skippable frame (RFC 8878, 3.1.2)."""


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_791, 65_792, 300_000])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"write_checksum": True},
        {"write_content_size": False},
        {"level": 1, "write_checksum": True, "write_content_size": False},
    ],
)
@pytest.mark.parametrize(("before", "after"), [(b"", b""), (SKIPPED, b""), (b"", SKIPPED), (SKIPPED * 2, SKIPPED)])
def test_every_form_of_a_zstd_frame(size: int, options: dict[str, Any], before: bytes, after: bytes) -> None:
    data = (bytes(range(251)) * 1200)[:size]
    packed = before + zstandard.ZstdCompressor(**options).compress(data) + after
    assert decompress("zstd", packed) == data
    assert decompress("zstd", packed + zstandard.compress(b"more")) == data + b"more"
    for end in {1, 4, len(packed) // 2, len(packed) - 1} - {len(packed) - len(after), len(before)}:
        with pytest.raises(CodecError):
            decompress("zstd", packed[:end])
