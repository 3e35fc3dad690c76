"""Compressed segments of a ring are unpacked within bounds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import zstandard

from captures.errors import CaptureError
from captures.packed import Unpacked
from captures.spool import MARGIN

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
