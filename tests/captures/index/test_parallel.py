"""An index whose rows several processes make is the index that one makes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from bench.summary import BASE
from captures import reader as captures_reader
from captures.export import parallel
from captures.index.indexer import Indexer
from captures.index.reader import IndexReader
from captures.index.summary import Summariser, Summary
from captures.tcp.reassembly import Share
from decoders.exchange import Exchange
from tests.captures import files, traffic
from tests.support.multiply import multiply

RUN = {"generation", "pid"}
"""What meta.json says that is another each time."""
PLACES = {"client", "label", "subject", "details", "details_high"}
"""Columns that say where in other files something lies."""


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "CHUNK_ITEMS", 7)
    monkeypatch.setattr(captures_reader, "FIRST_BATCH", 40)


def capture(kind: str, directory: Path) -> list[Path | str]:
    if kind == "twice":
        multiply(traffic.KAFKA_1_1, 2, directory / "twice.pcap")
        return [directory / "twice.pcap"]
    if kind == "damaged":
        taken = traffic.packets(traffic.LIBRDKAFKA)
        return [files.write(directory / "damaged.pcap", files.pcap(taken[37::1][:-3][::2] + taken[900:]))]
    return [{"0.8": traffic.KAFKA_0_8, "1.1": traffic.KAFKA_1_1, "4.4": traffic.LIBRDKAFKA}[kind]]


def indexed(captures: list[Path | str], directory: Path, jobs: int) -> list[object]:
    """All that an index holds."""
    indexer = Indexer(captures, directory, jobs=jobs)
    while not indexer.finished:
        indexer.step()
    indexer.close()
    with IndexReader(directory) as index:
        held: list[object] = [{name: value for name, value in index.meta.items() if name not in RUN}]
        for row in index.rows(0, index.count):
            connection = index.connection(row.connection)
            held += [
                {name: value for name, value in row._asdict().items() if name not in PLACES},
                [index.string(one) for one in (row.client, row.label, row.subject)],
                index.detail(row),
                [index.string(connection.client), index.string(connection.broker), *connection[2:]],
            ]
        return [*held, list(index.problems()), index.knowledge.facts]


@pytest.mark.parametrize("kind", ["0.8", "1.1", "4.4", "twice", "damaged"])
def test_processes_make_the_same_index(kind: str, tmp_path: Path) -> None:
    captures = capture(kind, tmp_path)
    alone = indexed(captures, tmp_path / "alone", 0)
    assert len(alone) > 100
    for jobs in (1, 3):
        assert indexed(captures, tmp_path / str(jobs), jobs) == alone


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The exchanges whose rows this process made."""
    asked: list[int] = []
    summary_of = Summariser.of

    def of(self: Summariser, exchange: Exchange) -> Summary:
        asked.append(exchange.number)
        return summary_of(self, exchange)

    monkeypatch.setattr(Summariser, "of", of)
    return asked


def test_rows_are_made_elsewhere(tmp_path: Path, asked: list[int]) -> None:
    indexed(capture("1.1", tmp_path), tmp_path / "index", 2)
    assert 0 < len(asked) < 40


def test_where_a_process_dies_this_one_begins_again(
    tmp_path: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    captures = capture("1.1", tmp_path)
    alone = indexed(captures, tmp_path / "alone", 0)
    asked.clear()
    here, take = os.getpid(), captures_reader.Reader.take

    def die(self: captures_reader.Reader, share: Share) -> object:
        if os.getpid() != here and self.numbering.exchanges > 60:
            os.kill(os.getpid(), signal.SIGKILL)
        return take(self, share)

    monkeypatch.setattr(captures_reader.Reader, "take", die)
    monkeypatch.setattr(captures_reader, "BATCH", 40)
    assert indexed(captures, tmp_path / "killed", 2) == alone
    assert asked.count(1) > 1
    assert 100 in asked


def test_what_is_unpacked_meanwhile_is_indexed_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(parallel, "CHUNK_ITEMS", 200)
    multiply(BASE, 1, tmp_path / "plain.pcap")
    _, *rows = indexed([tmp_path / "plain.pcap"], tmp_path / "plain", 0)
    _, *others = indexed([BASE], tmp_path / "packed", 2)
    assert others == rows
