"""Captures read from a spool: a viewer finds the same bytes there as long as the indexer lives."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kproxy.captures.index.indexer import Indexer
from kproxy.captures.index.reader import IndexReader
from kproxy.captures.opening import open_source
from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from tests.captures import files, traffic


@pytest.fixture(autouse=True)
def _spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def captures(directory: Path) -> dict[str, list[Path]]:
    taken = traffic.packets(traffic.KAFKA_1_1)
    packed = files.write(directory / "all.pcap.gz", gzip.compress(traffic.KAFKA_1_1.read_bytes()))
    first = files.write(directory / "first.gz", gzip.compress(files.pcap(taken[:700])))
    last = files.write(directory / "last", files.pcap(taken[700:]))
    even, odd = (files.write(directory / name, files.pcap(taken[i::2])) for i, name in enumerate(("even", "odd")))
    return {"one": [packed], "two": [last, first], "merged": [odd, even]}


@pytest.mark.parametrize(("kind", "names"), [("one", 1), ("two", 2), ("merged", 1)])
def test_the_bytes_are_where_the_index_says(kind: str, names: int, tmp_path: Path) -> None:
    given = captures(tmp_path)[kind]
    plain = read(traffic.KAFKA_1_1)
    expected = [bytes(one.request.data(plain.source)) for one in plain if isinstance(one, Exchange) and one.request]
    indexer = Indexer(list(given), tmp_path / "index")
    while not indexer.finished:
        indexer.step(wait=True)
    with IndexReader(tmp_path / "index") as index:
        assert index.meta["state"] == "complete"
        assert index.meta["bytes_total"] == index.meta["bytes_read"]
        assert len(index.meta["names"]) == names
        source = open_source(index.meta["sources"], ordered=True)
        found = [index.detail(index.row(number)).request for number in range(index.count)]
        assert sorted(bytes(frame.data(source)) for frame in found if frame) == sorted(expected)
        source.close()
    spools = list((tmp_path / "cache").rglob("*.spool"))
    assert spools
    indexer.close()
    assert not list((tmp_path / "cache").rglob("*.spool"))
