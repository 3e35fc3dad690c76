"""Compressed captures, packed by common tools."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from kproxy.captures.compression import CompressionError, is_compressed, pieces
from kproxy.captures.errors import CaptureError
from kproxy.captures.opening import open_source
from kproxy.captures.reader import read
from kproxy.captures.source import SpoolSource
from kproxy.captures.spool import Spooling
from tests.captures import files, traffic

SKIPPED = b"\x5a\x2a\x4d\x18\x04\x00\x00\x00size"
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "zstd of unknown size": lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data),
    "zstd after a frame to skip": lambda data: SKIPPED + zstandard.ZstdCompressor().compress(data),
    "lz4": lambda data: lz4.frame.compress(data, content_checksum=True),
    "xz": lambda data: lzma.compress(data, lzma.FORMAT_XZ, lzma.CHECK_CRC32),
}
SAMPLE = b"".join(random.Random(5).randbytes(11) * random.Random(n).randrange(40) for n in range(20_000))


@pytest.fixture(autouse=True)
def _spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def unpacked(path: Path, data: bytes) -> tuple[bytes, str]:
    """The unpacked bytes of a file, and why there are no more."""
    descriptor = os.open(files.write(path / "packed", data), os.O_RDONLY)
    found = b""
    try:
        for piece in pieces(descriptor):
            found += piece
    except CompressionError as error:
        return found, str(error)
    finally:
        os.close(descriptor)
    return found, ""


@pytest.mark.parametrize("name", PACKERS)
def test_any_stream(name: str, tmp_path: Path) -> None:
    pack = PACKERS[name]
    packed = pack(SAMPLE)
    assert is_compressed(packed)
    for data, held in ((packed, SAMPLE), (packed + pack(b"more"), SAMPLE + b"more")):
        found, why = unpacked(tmp_path, data)
        assert (found == held, why) == (True, "")
    for cut in (5, len(packed) // 3, len(packed) - 1):
        found, why = unpacked(tmp_path, packed[:cut])
        assert found == SAMPLE[: len(found)]
        assert "is truncated" in why
        assert len(found) > (200_000 if cut > 5 else -1)
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 0xFF
    if name.startswith("zstd"):
        return  # these files have no checksum
    assert "damaged" in unpacked(tmp_path, bytes(damaged))[1]


@pytest.mark.parametrize("data", [b"", b"\x1f", b"\xd4\xc3\xb2\xa1" + SAMPLE])
def test_what_is_not_compressed_passes(data: bytes, tmp_path: Path) -> None:
    assert not is_compressed(data[:4])
    assert unpacked(tmp_path, data) == (data, "")


@pytest.mark.parametrize("name", PACKERS)
def test_a_capture_reads_the_same(name: str, tmp_path: Path) -> None:
    whole = traffic.exported(traffic.KAFKA_1_1)
    path = files.write(tmp_path / "a.packed", PACKERS[name](traffic.KAFKA_1_1.read_bytes()))
    with path.open("rb") as stream:
        for piped in (False, True):
            reader = read(SpoolSource(stream) if piped else path)
            assert traffic.lines(reader) == whole
            assert list((tmp_path / "cache").rglob("*.spool"))
            reader.close()
            assert not list((tmp_path / "cache").rglob("*.spool"))


def test_spools_are_private_and_go(tmp_path: Path) -> None:
    path = files.write(tmp_path / "a.gz", gzip.compress(traffic.KAFKA_1_1.read_bytes()))
    source = open_source([path, traffic.LIBRDKAFKA])
    (spool,) = (tmp_path / "cache").rglob("*.spool")
    assert spool.stat().st_mode & 0o777 == 0o600
    source.close()
    assert not spool.exists()


def test_what_could_be_decompressed_is_read_before_the_error(tmp_path: Path) -> None:
    packed = gzip.compress(traffic.KAFKA_1_1.read_bytes())
    path = files.write(tmp_path / "a.gz", packed[: len(packed) // 2])
    alone = traffic.exchanges(traffic.exported(path))
    assert 50 < len(alone) < 249
    with pytest.raises(CaptureError, match=r"a\.gz: the gzip data is truncated"):
        list(read(path))
    later = traffic.exchanges(traffic.exported(traffic.LIBRDKAFKA))
    reader = read([path, traffic.LIBRDKAFKA])
    both = traffic.exchanges(traffic.lines(reader))
    assert len(both) == len(alone) + len(later)
    assert reader.error is not None


def test_rows_come_before_the_stream_ends(tmp_path: Path) -> None:
    """Whatever a compressor has flushed is shown, however little."""
    ends = os.pipe()
    data = traffic.KAFKA_1_1.read_bytes()
    with os.fdopen(ends[0], "rb") as stream, os.fdopen(ends[1], "wb", buffering=0) as pipe:
        packer = zstandard.ZstdCompressor().compressobj()
        pipe.write(packer.compress(data[:60_000]) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        reader = read(SpoolSource(stream, spooling=Spooling(tmp_path)))
        while not reader.started:
            reader.poll(wait=True)
        assert not reader.finished


def test_a_pipe_that_has_a_name(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(traffic.KAFKA_1_1.read_bytes(),))
    writer.start()
    assert traffic.exported(fifo) == traffic.exported(traffic.KAFKA_1_1)
    writer.join()


@pytest.mark.parametrize("command", ["export", "merge"])
def test_the_output_is_not_the_compressed_capture(command: str, tmp_path: Path) -> None:
    path = files.write(tmp_path / "a.gz", gzip.compress(traffic.KAFKA_1_1.read_bytes()))
    run = subprocess.run(
        [sys.executable, "-c", "from kproxy.cli.main import main; main()", command, path, "-o", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "this is the input capture" in run.stderr
    assert gzip.decompress(path.read_bytes()) == traffic.KAFKA_1_1.read_bytes()


def test_a_bomb_is_not_held_in_memory(tmp_path: Path) -> None:
    """512 MB of zeros in a small file: unpacked pieces stay small."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb") as file:
        for _ in range(64):
            file.write(bytes(8 << 20))
    descriptor = os.open(files.write(tmp_path / "bomb", out.getvalue()), os.O_RDONLY)
    sizes = [len(piece) for piece in pieces(descriptor)]
    os.close(descriptor)
    assert sum(sizes) == 512 << 20
    assert max(sizes) <= 1 << 20
