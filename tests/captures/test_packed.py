"""Compressed ring segments are unpacked within bounds."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path

import pytest
import zstandard

from kproxy.captures.errors import CaptureError
from kproxy.captures.packed import LARGEST, Unpacked, packed_size
from kproxy.captures.spool import MARGIN

DATA = bytes(range(256)) * 400


def segment(directory: Path) -> Path:
    path = directory / "seg-00000001-20261121T183638Z.pcapng.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(DATA))
    return path


def test_no_more_than_asked_for(tmp_path: Path) -> None:
    path = segment(tmp_path)
    assert bytes(Unpacked(lambda: tmp_path, len(DATA)).view(path, len(DATA)) or b"") == DATA
    with pytest.raises(CaptureError, match="--spool-max"):
        Unpacked(lambda: tmp_path, len(DATA) - 1).view(path, len(DATA))


def test_no_more_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = segment(tmp_path)
    free = shutil.disk_usage(tmp_path)._replace(free=MARGIN)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    with pytest.raises(CaptureError, match="--spool-dir"):
        Unpacked(lambda: tmp_path, len(DATA)).view(path, len(DATA))


def test_no_more_than_a_file_says(tmp_path: Path) -> None:
    """The size in a header may be wrong: unpacked bytes are counted, and on a difference none of them is used."""
    path = tmp_path / "seg-00000001-20261121T183638Z.pcapng.zst"
    for told in (len(DATA) - 1, len(DATA) + 1):
        held = zstandard.ZstdCompressor(write_content_size=False).compress(DATA)
        path.write_bytes(lying(held, told))
        assert packed_size(path) == told
        with pytest.raises(CaptureError, match="cannot be decompressed"):
            Unpacked(lambda: tmp_path, 1 << 30).view(path, told)
    path.write_bytes(zstandard.ZstdCompressor().compress(random.Random(1).randbytes(500_000))[:200_000])
    with pytest.raises(CaptureError, match="its size differs from the 500000 bytes of its header"):
        Unpacked(lambda: tmp_path, 1 << 30).view(path, 500_000)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("told", [LARGEST + 1, 1 << 63])
def test_what_no_segment_holds_is_not_believed(told: int, tmp_path: Path) -> None:
    path = tmp_path / "seg-00000001-20261121T183638Z.pcapng.zst"
    path.write_bytes(lying(zstandard.ZstdCompressor(write_content_size=False).compress(DATA), told))
    with pytest.raises(CaptureError, match="plausible decompressed size"):
        packed_size(path)


def lying(frame: bytes, told: int) -> bytes:
    """A zstd frame (RFC 8878, 3.1.1.1) with the content size `told` in its header, in eight bytes."""
    assert frame[4] & 0b1110_0011 == 0, "no size, no dictionary, not in one segment"
    return frame[:4] + bytes([frame[4] | 0b1100_0000]) + frame[5:6] + struct.pack("<Q", told) + frame[6:]
