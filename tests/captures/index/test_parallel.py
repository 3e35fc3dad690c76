"""An index written by several processes equals that of one process."""

from __future__ import annotations

import os
import signal
from operator import itemgetter
from pathlib import Path
from random import Random

import pytest

from bench.summary import BASE
from kproxy.captures import reader as captures_reader
from kproxy.captures.index.indexer import Indexer
from kproxy.captures.index.reader import IndexReader
from kproxy.captures.index.summary import Summariser, Summary
from kproxy.captures.tcp.shares import Share
from kproxy.decoders.exchange import Exchange
from tests.captures import files, traffic
from tests.support.multiply import multiply
from tests.support.thinned import thinned

RUN = {"generation", "pid"}
"""Members of meta.json that differ from run to run."""
KWARGS: dict[str, object] = dict(captures_reader.Reader.__init__.__kwdefaults__ or {})
PLACES = {"client", "label", "subject", "details", "details_high"}
"""Columns that hold positions in other files."""


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.captures.chunks.CHUNK_ITEMS", 7)
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
    """The contents of the index that `jobs` processes make."""
    indexer = Indexer(captures, directory, jobs=jobs)
    while not indexer.finished:
        indexer.step()
    indexer.close()
    return held(directory)


def held(directory: Path) -> list[object]:
    """The contents of an index."""
    with IndexReader(directory) as index:
        found: list[object] = [{name: value for name, value in index.meta.items() if name not in RUN}]
        for row in index.rows(0, index.count):
            connection = index.connection(row.connection)
            found += [
                {name: value for name, value in row._asdict().items() if name not in PLACES},
                [index.string(one) for one in (row.client, row.label, row.subject)],
                index.detail(row),
                [index.string(connection.client), index.string(connection.broker), *connection[2:]],
            ]
        return [*found, list(index.problems()), index.knowledge.facts]


def mixed(directory: Path, random: Random) -> list[Path | str]:
    """Captures of the same time with lost, repeated and reordered packets; in one file, or in two with a gap."""
    taken: list[files.Packet] = []
    for number, path in enumerate([traffic.KAFKA_0_8, traffic.KAFKA_1_1, traffic.LIBRDKAFKA, traffic.LIBRDKAFKA]):
        packets = traffic.packets(path)
        begin = random.randrange(40)
        shift = 1_700_000_000_000_000_000 - packets[begin][0] + random.randrange(3_000_000_000)
        for time, frame in packets[begin : begin + random.choice([400, 1200])]:
            changed = bytearray(frame)
            changed[27], changed[31] = number + 1, number + 1
            if number == 3:  # gives the same topic ids other names
                changed = changed.replace(b"shop-", b"SHOP-")
            taken.append((time + shift, bytes(changed)))
    taken.sort(key=itemgetter(0))
    rate = random.choice([0, 0.001, 0.02])
    taken = [one for one in taken if random.random() >= rate]
    taken += [one for one in taken if random.random() < rate]
    spread = random.choice([0, 2_000_000])
    taken = [one for _, one in sorted((one[0] + random.randrange(spread + 1), one) for one in taken)]
    if random.random() < 0.5:
        return [files.write(directory / "one.pcap", files.pcap(taken))]
    middle = random.randrange(len(taken))
    late = [(time + 45_000_000_000, frame) for time, frame in taken[middle + random.randrange(30) :]]
    halves = files.pcap(taken[:middle])[: random.choice([-7, None])], files.pcap(late)
    return [files.write(directory / f"{number}.pcap", half) for number, half in enumerate(halves)]


@pytest.mark.parametrize("seed", thinned(range(12), 3))
def test_processes_make_the_same_index_of_what_is_damaged(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    captures = mixed(tmp_path, random)
    monkeypatch.setattr(captures_reader.Reader.__init__, "__kwdefaults__", KWARGS | {"batch": random.choice([40, 600])})
    alone = indexed(captures, tmp_path / "alone", 0)
    assert len(alone) > 300
    assert indexed(captures, tmp_path / "divided", random.choice([2, 3, 4])) == alone


@pytest.mark.parametrize("kind", ["0.8", "1.1", "4.4", "twice", "damaged"])
def test_processes_make_the_same_index(kind: str, tmp_path: Path) -> None:
    captures = capture(kind, tmp_path)
    alone = indexed(captures, tmp_path / "alone", 0)
    assert len(alone) > 100
    for jobs in (1, 3):
        assert indexed(captures, tmp_path / str(jobs), jobs) == alone


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the exchanges whose rows this process makes."""
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
    monkeypatch.setattr("kproxy.captures.chunks.CHUNK_ITEMS", 200)
    multiply(BASE, 1, tmp_path / "plain.pcap")
    _, *rows = indexed([tmp_path / "plain.pcap"], tmp_path / "plain", 0)
    _, *others = indexed([BASE], tmp_path / "packed", 2)
    assert others == rows


def test_the_processes_end_with_the_reading(tmp_path: Path) -> None:
    """The worker processes end with the reading, though a viewer may keep the indexer and its spool for hours."""
    others = _children()
    indexer = Indexer(capture("1.1", tmp_path), tmp_path / "index", jobs=2)
    workers: set[str] = set()
    while not indexer.finished:
        indexer.step()
        workers |= _children() - others
    assert workers
    assert not workers & _children()
    indexer.close()


def _children() -> set[str]:
    """The ids of the processes that this one has started and that have not ended."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


def test_where_no_process_can_be_begun_this_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captures = capture("1.1", tmp_path)
    alone = indexed(captures, tmp_path / "alone", 0)

    def none_left() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", none_left)
    assert indexed(captures, tmp_path / "refused", 2) == alone
