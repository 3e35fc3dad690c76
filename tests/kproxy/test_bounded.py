"""What follows a ring keeps what can still be opened: nothing of what has ended or is gone, in memory or on disk."""

from __future__ import annotations

import contextlib
import gc
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.captures import holes
from kproxy.captures.index import format as layout
from kproxy.captures.index import writer
from kproxy.captures.index.format import State
from kproxy.captures.index.indexer import Indexer
from kproxy.captures.index.reader import IndexReader
from kproxy.captures.index.writer import IndexWriter
from kproxy.captures.reader import Reader, read
from kproxy.captures.tcp import reassembly, shares
from kproxy.captures.tcp.connections import Ended
from kproxy.decoders.writer import write
from kproxy.recording.recorder import Recorder
from kproxy.recording.sinks import Ring, pcapng_header
from tests.captures import files
from tests.captures.traffic import KAFKA_1_1, payload
from tests.captures.traffic import packets as traffic_of
from tests.kproxy.core.frames import DEFINITIONS, request, response

SEGMENT, KEEP = 60_000, 4
HEARTBEAT = (12, 3)


class Traffic:
    """A ring, and connections of one exchange each."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        ring = Ring(directory, pcapng_header("127.0.0.1:1"), SEGMENT, KEEP)
        self.recorder = Recorder(ring, lambda *_: None, pytest.fail, threaded=False, batch_bytes=SEGMENT // 16)
        self.connections = 0

    def more(self, count: int, *, group: str = "g") -> None:
        asked = DEFINITIONS.request(*HEARTBEAT)
        assert asked is not None
        body = write(asked, HEARTBEAT[1], {"groupId": group, "generationId": 1, "memberId": "m" * 300})
        for _ in range(count):
            self.connections += 1
            number = self.connections
            client = (f"10.{number >> 14 & 127}.{number >> 7 & 127}.{number & 127}", 40_000)
            flow = self.recorder.connection(client, ("10.0.0.9", 9092))
            flow.data(0, request(*HEARTBEAT, number, bytes(body)))
            flow.data(1, response(*HEARTBEAT, number, {}))
            flow.end(0)
            flow.end(1)
        self.recorder.flush()

    @property
    def oldest(self) -> int:
        """The address from which on bytes are there."""
        bases: dict[str, int] = json.loads((self.directory / "ring.json").read_text())["bases"]
        return min(bases.values())


@pytest.fixture
def traffic(tmp_path: Path) -> Iterator[Traffic]:
    made = Traffic(tmp_path / "ring")
    made.more(1, group="first")
    yield made
    made.recorder.close()


def read_all(reader: Reader) -> None:
    reader.poll()
    while not reader.idle:
        reader.poll()


def catch_up(indexer: Indexer) -> None:
    while indexer.step():
        pass


def test_rows_go_with_the_file_that_they_began_in(traffic: Traffic, tmp_path: Path) -> None:
    path = tmp_path / "index"
    with contextlib.closing(Indexer([traffic.directory], path, follow=True)) as indexer:
        with IndexReader(path) as index:
            for _ in range(40):
                traffic.more(40)
                catch_up(indexer)
            traffic.more(1, group="last")
            catch_up(indexer)
            assert index.refresh()
            assert index.count == traffic.connections
            assert 0 < index.first < index.count
            for number, row in enumerate(index.rows(0, index.count)):
                asked = index.detail(row).request
                assert (number < index.first) == (row.state == State.EMPTY) == (asked is None)
                if asked is None:
                    continue
                assert asked.at >= traffic.oldest
                assert len(asked.data(indexer.reader.source)) == asked.size + 4
                assert index.string(row.label) == ("g:last" if number == index.count - 1 else "g:g")
                entry = index.connection(row.connection)
                assert index.string(entry.client).endswith(":40000")
                assert index.string(entry.broker) == "10.0.0.9:9092"
            held = index.count - index.first
        files = [path / name for name in (layout.ROWS, layout.DETAILS, layout.STRINGS)]
        sizes = [file.stat().st_size for file in files]
        taken = [file.stat().st_blocks * 512 for file in files]
        assert sum(taken) < sum(sizes) * held / traffic.connections + holes.BLOCK // 2


def test_rows_are_let_go_where_files_cannot_have_holes(
    traffic: Traffic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holes, "_fallocate", lambda: None)
    with contextlib.closing(Indexer([traffic.directory], tmp_path / "index", follow=True)) as indexer:
        for _ in range(30):
            traffic.more(40)
            catch_up(indexer)
        with IndexReader(tmp_path / "index") as index:
            assert 0 < index.first < index.count


def test_an_exchange_that_is_completed_after_its_row_went_stays_gone(traffic: Traffic, tmp_path: Path) -> None:
    late = traffic.recorder.connection(("10.1.2.3", 1), ("10.0.0.9", 9092))
    late.data(0, request(*HEARTBEAT, 7))
    with contextlib.closing(Indexer([traffic.directory], tmp_path / "index", follow=True)) as indexer:
        for _ in range(30):
            traffic.more(40)
            catch_up(indexer)
        late.data(1, response(*HEARTBEAT, 7, {}))
        traffic.more(1)
        catch_up(indexer)
        with IndexReader(tmp_path / "index") as index:
            assert index.first > 2
            assert {row.state for row in index.rows(0, index.first)} == {State.EMPTY}


def test_problems_go_with_what_they_are_about(tmp_path: Path) -> None:
    with IndexWriter(tmp_path / "index", []) as made, IndexReader(tmp_path / "index") as index:
        made.problem({"number": 1})
        mark = made.mark()
        made.problem({"number": 2})
        made.let_go(mark)
        index.refresh()
        assert list(index.problems()) == [{"number": 2}]


def test_connections_that_have_ended_leave_nothing(
    traffic: Traffic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes of what the process holds, after many connections, within limits that are low."""
    monkeypatch.setattr(reassembly, "PARTS", 1)
    monkeypatch.setattr(shares, "PARTS", 1)
    monkeypatch.setattr(reassembly, "MOST_OVER", 50)
    monkeypatch.setattr(writer, "NAMED", 60)
    with contextlib.closing(Indexer([traffic.directory], tmp_path / "index", follow=True)) as indexer:
        reader = indexer.reader
        tcp = reader._reassembler
        for _ in range(120):
            traffic.more(25)  # less than the ring holds: a reader lets go of what is deleted
            catch_up(indexer)
        assert reader.numbering.connections == traffic.connections > 3000
        assert len(reader._talks) == len(indexer._changes.headers_only) == 0
        assert len(tcp._over[0]) == len(tcp._flows) == 50
        assert len(tcp._directions) == 100
        assert {(type(flow.connection), flow.waiting is reassembly._NONE_WAIT) for flow in tcp._flows.values()} == {
            (Ended, True)
        }
        assert all(isinstance(each, Ended) and each.connection is None for each in tcp._over[0])
        assert isinstance(indexer.writer, IndexWriter)
        assert len(indexer.writer._entries) <= 60
        assert len(reader.source.parts) == len(reader.source._bases) <= KEEP + 1
        assert len(indexer._marks) <= KEEP + 1


def test_how_far_a_reader_is_behind_counts_files_that_it_has_not_seen(traffic: Traffic) -> None:
    with contextlib.closing(read(traffic.directory, follow=True)) as reader:
        read_all(reader)
        at = reader.position
        assert reader.source.written() - at == 0
        traffic.more(600)
        assert reader.source.size == at, "it has taken up nothing yet"
        assert reader.source.written() - at > (KEEP - 1) * SEGMENT
        read_all(reader)
        assert reader.source.written() == reader.position


def kinds() -> Counter[str]:
    return Counter(type(each).__name__ for each in gc.get_objects())


@pytest.mark.parametrize("missing", [False, True])
def test_what_has_ended_is_free_without_a_search_for_garbage(tmp_path: Path, *, missing: bool) -> None:
    """As readings hardly look for it (`captures.garbage`); also what was looking for the next frame after a gap."""
    taken = traffic_of(KAFKA_1_1)
    kept = [one for number, one in enumerate(taken) if not missing or number % 50 or not payload(one[1])]
    path = files.write(tmp_path / "one.pcap", files.pcap(kept))
    indexer = Indexer([path], tmp_path / "index")
    gc.collect()
    gc.disable()
    try:
        before = kinds()
        while not indexer.finished:
            indexer.step()
        left = kinds() - before
    finally:
        gc.enable()
        indexer.close()
    assert indexer.reader.numbering.connections
    assert bool(indexer.reader.health.resyncs) == missing
    assert left["Talk"] == left["Conversation"] == left["Requests"] == left["Responses"] == left["Pairing"] == 0
