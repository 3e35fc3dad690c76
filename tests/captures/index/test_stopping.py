"""The user stops indexing: the index holds the bytes read until then."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures import cache
from kproxy.captures import reader as captures_reader
from kproxy.captures.analysis import snapshots
from kproxy.captures.analysis.columns.stored import Stored
from kproxy.captures.index.format import STOP
from kproxy.captures.index.indexer import Indexer, run
from tests.captures import traffic
from tests.captures.index.test_parallel import KWARGS, held, indexed


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.captures.chunks.CHUNK_ITEMS", 7)
    monkeypatch.setattr(captures_reader, "FIRST_BATCH", 40)
    monkeypatch.setattr(captures_reader.Reader.__init__, "__kwdefaults__", {**KWARGS, "batch": 60})


def meta_of(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "meta.json").read_text())
    return found


@pytest.mark.parametrize("jobs", [0, 2])
def test_the_index_is_that_of_what_was_read(tmp_path: Path, jobs: int) -> None:
    capture, index = traffic.LIBRDKAFKA, tmp_path / "index"
    indexer = Indexer([capture], index, jobs=jobs)
    for _ in range(5):
        indexer.step()
    (index / STOP).touch()
    assert indexer.told_to_stop
    indexer.cut()
    indexer.close()
    meta = meta_of(index)
    assert meta["state"] == "stopped"
    assert 0 < meta["bytes_read"] < meta["bytes_total"] == capture.stat().st_size
    read = tmp_path / "read.pcap"
    read.write_bytes(capture.read_bytes()[: meta["bytes_read"]])
    assert held(index)[1:] == indexed([read], tmp_path / "other", 0)[1:]


def test_it_is_not_kept_and_the_views_go_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(snapshots, "WRITE_SECONDS", 0)
    index = tmp_path / "index"
    step = Indexer.step

    def stopping(self: Indexer, *, wait: bool = False) -> bool:
        (index / STOP).touch()
        return step(self, wait=wait)

    with monkeypatch.context() as stopped:
        stopped.setattr(Indexer, "step", stopping)
        assert run([traffic.LIBRDKAFKA], index, keep=True) is None
    assert meta_of(index)["state"] == "stopped"
    assert not list(cache.directory().glob("indexes/*"))
    over = threading.Event()
    watch = snapshots.Snapshots(index, over, following=False)
    assert run([traffic.LIBRDKAFKA], None, watch=watch, stopping=over) is None
    watch.end(None)
    topics = Stored(index / "views" / "topics.table").facts
    assert topics["state"] == "stopped"
    assert meta_of(index)["bytes_read"] <= topics["bytes_read"] < meta_of(index)["bytes_total"]
