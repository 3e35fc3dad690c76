"""An index whose rows several processes make is the index that one makes."""

from __future__ import annotations

import marshal
import os
import signal
from pathlib import Path

import pytest

from bench.summary import BASE
from captures import reader as captures_reader
from captures.export import parallel
from captures.index.block import Block
from captures.index.indexer import Indexer
from captures.index.parallel import RowMakers
from captures.index.reader import IndexReader
from captures.index.summary import Summariser, Summary
from decoders.exchange import Exchange
from decoders.knowledge import Fact, Knowledge
from decoders.learning import learn
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


def test_what_a_process_was_told_is_known_where_it_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of topics, which the messages that it left only have the ids of."""
    reader = captures_reader.read(traffic.LIBRDKAFKA)
    exchanges = [item for batch in reader.batches() for item in batch if isinstance(item, Exchange)]
    facts: list[tuple[Fact, str, str]] = []
    knowledge = Knowledge(lambda *fact: facts.append(fact))
    for exchange in exchanges:
        learn(exchange, reader.source, reader.definitions, knowledge)
    fetches = [exchange for exchange in exchanges if exchange.api_key == 1]
    here, summary_of, last = os.getpid(), Summariser.of, fetches[-1].number

    def of(self: Summariser, exchange: Exchange) -> Summary:
        if os.getpid() != here and exchange.number == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return summary_of(self, exchange)

    monkeypatch.setattr(Summariser, "of", of)
    makers = RowMakers(reader.source, reader.definitions, 1, Knowledge())
    for fact in facts:
        makers.tell(*fact)
    # the process is told all with the first of these, and dies of the last
    made = [block for chunk in (exchanges[:9], fetches) for block, _ in makers.deal(chunk)]
    made += [block for block, _ in makers.rest()]
    makers.close()
    summaries = Summariser(reader.source, reader.definitions)
    for fact in facts:
        summaries.knowledge.take(*fact)
    alone = [Block(), Block()]
    for block, chunk in zip(alone, (exchanges[:9], fetches), strict=True):
        for exchange in chunk:
            block.add(exchange, summaries.of(exchange))
    assert [marshal.loads(block.pack()) for block in made] == [marshal.loads(block.pack()) for block in alone]
    reader.close()


def test_rows_are_made_elsewhere_and_where_that_fails_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captures = capture("1.1", tmp_path)
    alone = indexed(captures, tmp_path / "alone", 0)
    here, asked = os.getpid(), []
    summary_of = Summariser.of

    def of(self: Summariser, exchange: Exchange) -> Summary:
        asked.append(exchange.number)
        if os.getpid() != here and exchange.number > 40:
            os.kill(os.getpid(), signal.SIGKILL)
        return summary_of(self, exchange)

    monkeypatch.setattr(Summariser, "of", of)
    assert indexed(captures, tmp_path / "killed", 2) == alone
    assert not {*range(30, 40)}.issubset(asked)
    assert 100 in asked


def test_what_is_unpacked_meanwhile_is_indexed_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(parallel, "CHUNK_ITEMS", 200)
    multiply(BASE, 1, tmp_path / "plain.pcap")
    _, *rows = indexed([tmp_path / "plain.pcap"], tmp_path / "plain", 0)
    _, *others = indexed([BASE], tmp_path / "packed", 2)
    assert others == rows
