"""Export by several processes writes the same bytes as one process, or fails with an error."""

from __future__ import annotations

import io
import lzma
import marshal
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import sleep
from typing import BinaryIO

import pytest
from click.testing import CliRunner

from kproxy.captures.chunks import chunks
from kproxy.captures.export import engine, packing, parallel
from kproxy.captures.export.parallel import Facts, Item, Stage, WorkerError, write
from kproxy.captures.opening import open_source
from kproxy.cli.commands import export
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from kproxy.cli.options.selecting import Selection
from kproxy.cli.options.viewing import Viewing
from kproxy.decoders.exchange import Connection, Exchange, Frame
from kproxy.decoders.filters import parse
from kproxy.decoders.knowledge import Fact, Knowledge
from kproxy.decoders.stream import Side
from tests.captures import traffic
from tests.support.multiply import multiply
from tests.support.thinned import thinned

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # other tests leave threads behind
FORMS = ("jsonl", "json", "csv", "records")
"""Text formats for any number of exchanges."""
CONNECTION = Connection(1, "client:1", "broker:2", 0)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.captures.chunks.CHUNK_ITEMS", 20)


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids of the processes that are forked."""
    forked: list[int] = []
    fork = os.fork

    def counted() -> int:
        pid = fork()
        forked.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", counted)
    return forked


def run(out: Path, jobs: int, *arguments: str) -> tuple[int, str, bytes]:
    """Exit code, standard error, and output."""
    result = CliRunner().invoke(main, ["export", "--jobs", str(jobs), "-o", str(out), *arguments])
    return result.exit_code, result.stderr, out.read_bytes()


def twice(capture: Path, out: Path) -> str:
    """Two copies of a capture with different addresses, one after the other, so that exchanges fill several batches."""
    multiply(capture, 2, out)
    return str(out)


def damaged(out: Path) -> str:
    """A capture with changed bytes in every ninth packet with enough payload, cut within its last packet."""
    taken = []
    for index, (time, packet) in enumerate(traffic.packets(traffic.LIBRDKAFKA)):
        start = len(packet) - traffic.payload(packet)
        hurt = index % 9 == 0 and len(packet) > start + 60
        taken.append((time, packet[: start + 30] + b"\xff\xff" + packet[start + 32 :] if hurt else packet))
    out.write_bytes(traffic.pcapng(taken)[:-5])
    return str(out)


@pytest.mark.parametrize("jobs", thinned([3, 2, 4], 1))
@pytest.mark.parametrize("form", FORMS)
def test_any_number_of_processes_writes_the_same(jobs: int, form: str, tmp_path: Path, forks: list[int]) -> None:
    capture = twice(traffic.LIBRDKAFKA, tmp_path / "capture")
    alone = run(tmp_path / "alone", 1, "--format", form, capture)
    assert not forks
    assert alone[0] == Exit.OK
    assert alone == run(tmp_path / "several", jobs, "--format", form, capture)
    assert len(forks) == jobs


def test_one_process_takes_from_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: list[int]) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plain = tmp_path / "capture"
    plain.write_bytes(lzma.decompress(traffic.BENCH.read_bytes()))
    assert run(tmp_path / "alone", 1, str(plain)) == run(tmp_path / "several", 3, str(traffic.BENCH))
    assert len(forks) == 3


@pytest.mark.parametrize("capture", [traffic.KAFKA_0_8, traffic.KAFKA_1_1, traffic.LIBRDKAFKA])
@pytest.mark.parametrize("size", [1, 7])
def test_wherever_chunks_end(capture: Path, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.captures.chunks.CHUNK_ITEMS", size)
    assert run(tmp_path / "alone", 1, str(capture)) == run(tmp_path / "several", 3, str(capture))


@pytest.mark.parametrize(
    "options",
    [
        ["-Y", "api == Fetch"],
        ["-Y", "error or latency > 20ms", "--format", "json"],
        ["-Y", "api == Fetch", "--format", "records"],
        ["-Y", "not api", "--format", "json"],
        ["--until", "2020-01-01", "--format", "csv"],
        ["-Y", "api == Fetch", "-c", "30"],
    ],
)
def test_what_is_selected_is_the_same(options: list[str], tmp_path: Path) -> None:
    capture = twice(traffic.LIBRDKAFKA, tmp_path / "capture")
    alone = run(tmp_path / "alone", 1, capture, *options)
    assert alone[0] == Exit.OK
    assert alone == run(tmp_path / "several", 3, capture, *options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], ""),
        (["--format", "json"], ""),
        (["--format", "records"], "problems in messages with records"),
        (["-Y", "error", "--format", "csv"], " exchanges left out because the filter could not decide: "),
    ],
)
def test_damage_is_told_and_counted_the_same(options: list[str], told: str, tmp_path: Path) -> None:
    capture = damaged(tmp_path / "capture")
    code, error, text = run(tmp_path / "alone", 1, capture, *options)
    assert code == Exit.INPUT
    assert "ends inside a packet" in error
    assert told in error
    assert options or b'"undecoded":0,' not in text.splitlines()[-1]
    assert (code, error, text) == run(tmp_path / "several", 3, capture, *options)


def exchange(number: int) -> Exchange:
    return Exchange(number, CONNECTION, 3, 12, number, "client")


class Numbers:
    """Writes the numbers of exchanges and the last number learnt; calls `act` with each number before."""

    def __init__(self) -> None:
        self.knowledge = Knowledge()
        self.counts = [0, 0]
        self.learns = True

    @property
    def facts(self) -> Facts:
        return {str(fact): known for fact, known in self.knowledge.facts.items()}

    @facts.setter
    def facts(self, facts: Facts) -> None:
        self.knowledge.facts = {Fact(fact): dict(known) for fact, known in facts.items()}

    def act(self, number: int) -> None:
        pass

    def texts(self, items: Sequence[Item]) -> Iterator[bytes]:
        for item in items:
            assert isinstance(item, Exchange)
            self.act(item.number)
            last = self.knowledge.protocol("last")
            yield f"{item.number} after {last} of {self.knowledge.protocol('first')}\n".encode()
            self.counts = [self.counts[0] + 1, self.counts[1] + item.number]
            self._learn(item.number)

    def learn(self, items: Sequence[Item]) -> None:
        for item in items if self.learns else ():
            assert isinstance(item, Exchange)
            self._learn(item.number)

    def pack(self, items: Sequence[Item]) -> bytes:
        return packing.pack(items)

    def unpack(self, packed: bytes) -> list[Item]:
        return packing.unpack(packed)[0]

    def reached(self, stage: Stage) -> None:
        pass

    def _learn(self, number: int) -> None:
        if self.knowledge.protocol("first") is None:
            self.knowledge.take(Fact.PROTOCOL, "first", str(number))
        if not number % 10:
            self.knowledge.take(Fact.PROTOCOL, "last", str(number))


def numbers(work: Numbers, path: Path, jobs: int) -> str:
    batches = [[exchange(number) for number in range(start, start + 50)] for start in range(0, 500, 50)]
    with path.open("wb") as out:
        if jobs == 1:
            out.writelines(text for batch in batches for text in work.texts(batch))
        else:
            write(work, batches, out, jobs)
    return path.read_text()


@pytest.mark.parametrize("learns", [True, False])
def test_text_is_made_of_what_was_learnt_before_it(learns: bool, tmp_path: Path) -> None:
    alone, several = Numbers(), Numbers()
    several.learns = learns
    assert numbers(several, tmp_path / "several", 4) == numbers(alone, tmp_path / "alone", 1)
    assert several.counts == alone.counts == [500, sum(range(500))]


@pytest.mark.parametrize("jobs", [2, 3])
def test_more_facts_than_a_pipe_holds(jobs: int, tmp_path: Path) -> None:
    class Many(Numbers):
        def _learn(self, number: int) -> None:
            self.knowledge.take(Fact.TOPIC, f"{number:032x}", "name" * 4096)
            super()._learn(number)

    assert numbers(Many(), tmp_path / "several", jobs) == numbers(Many(), tmp_path / "alone", 1)


def test_what_only_text_teaches_is_made_again_only_until_it_is_known(tmp_path: Path) -> None:
    made = tmp_path / "made"

    class Once(Numbers):
        def act(self, number: int) -> None:
            with made.open("a") as file:
                file.write(f"{number}\n")
            if number == 25:
                self.knowledge.take(Fact.TOPIC, "0" * 32, "inside")

    assert len(numbers(Once(), tmp_path / "several", 2).splitlines()) == 500
    again = len(made.read_text().splitlines()) - 500
    assert 0 < again <= 20 * parallel.AHEAD * 2


def test_text_that_is_made_again_is_that_of_the_state_in_which_its_items_were_read(tmp_path: Path) -> None:
    class Read(Numbers):
        read = 0

        def batches(self) -> Iterator[list[Item]]:
            for self.read in range(0, 500, 50):
                yield [exchange(number) for number in range(self.read, self.read + 50)]

        def texts(self, items: Sequence[Item]) -> Iterator[bytes]:
            return (f"{self.read}: ".encode() + text for text in super().texts(items))

        def learn(self, items: Sequence[Item]) -> None:
            pass

        def pack(self, items: Sequence[Item]) -> bytes:
            return marshal.dumps((self.read, super().pack(items)))

        def unpack(self, packed: bytes) -> list[Item]:
            self.read, items = marshal.loads(packed)
            return super().unpack(items)

    alone, several = Read(), Read()
    with (tmp_path / "several").open("wb") as out:
        write(several, several.batches(), out, 3)
    text = [part for batch in alone.batches() for part in alone.texts(batch)]
    assert (tmp_path / "several").read_bytes().splitlines(keepends=True) == text


def test_a_process_that_is_killed_is_an_error(tmp_path: Path) -> None:
    class Killed(Numbers):
        def act(self, number: int) -> None:
            if number == 222:
                os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerError, match="signal 9"):
        numbers(Killed(), tmp_path / "several", 3)
    written, whole = (tmp_path / "several").read_text(), numbers(Numbers(), tmp_path / "alone", 1)
    assert whole.startswith(written)
    assert f"\n{219 - 20 * 3 * parallel.AHEAD} " in written
    assert "\n220 " not in written
    assert_no_children()


def test_an_error_in_a_process_is_told(tmp_path: Path) -> None:
    class Wrong(Numbers):
        def act(self, number: int) -> None:
            if number in {222, 333}:
                raise KeyError(number)

    with pytest.raises(WorkerError, match="KeyError: 222") as raised:
        numbers(Wrong(), tmp_path / "several", 3)
    assert any("in act" in note for note in raised.value.__notes__)
    assert_no_children()


def test_an_error_of_the_reading_ends_the_processes(tmp_path: Path) -> None:
    def batches() -> Iterator[list[Item]]:
        for start in range(0, 100, 20):
            yield [exchange(number) for number in range(start, start + 20)]
        raise ValueError("no more")

    with (tmp_path / "several").open("wb") as out, pytest.raises(ValueError, match="no more"):
        write(Numbers(), batches(), out, 3)
    assert_no_children()


class Long(Numbers):
    """Writes 10,000 bytes for each exchange except the first ones."""

    def learn(self, items: Sequence[Item]) -> None:
        pass

    def texts(self, items: Sequence[Item]) -> Iterator[bytes]:
        assert isinstance(items[0], Exchange)
        slow = 0.003 if items[0].number // 20 % 4 == 1 else 0.0003  # so that it is others' turn while they make text
        for _ in items if items[0].number else ():
            sleep(slow)
            yield b"x" * 10_000


def test_a_full_disk_is_the_error_that_it_is() -> None:
    with pytest.raises(OSError, match="No space left"), Path("/dev/full").open("wb") as out:
        write(Long(), [[exchange(number) for number in range(100)]], out, 2)
    assert_no_children()


@pytest.mark.parametrize("room", thinned(range(100_000, 2_000_000, 200_000), 4))
def test_a_disk_that_is_full_at_some_time(room: int, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(OSError, match="File too large"), (tmp_path / "out").open("wb") as out:
            write(Long(), [[exchange(number) for number in range(400)]], out, 3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "out").stat().st_size == room
    assert_no_children()


def assert_no_children() -> None:
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def apart(*arguments: str) -> subprocess.Popen[bytes]:
    """Start the command in a separate process and process group."""
    code = (
        "import sys; from kproxy.captures import chunks; from kproxy.cli.main import main;"
        "chunks.CHUNK_ITEMS = 20; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, "export", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def assert_gone(group: int) -> None:
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    process = apart("--jobs", "3", twice(traffic.LIBRDKAFKA, tmp_path / "capture"))
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(timeout=60) == Exit.PIPE
    assert process.stderr.read() == b""
    process.stderr.close()
    assert_gone(process.pid)


@pytest.mark.parametrize("everybody", [True, False])
def test_an_interrupt(everybody: bool, tmp_path: Path) -> None:
    process = apart("--jobs", "3", twice(traffic.LIBRDKAFKA, tmp_path / "capture"))
    assert process.stdout is not None
    process.stdout.read(200_000)  # more than a pipe holds: the forked ones write, and wait for somebody to read on
    (os.killpg if everybody else os.kill)(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == Exit.INTERRUPTED
    process.communicate()
    assert_gone(process.pid)


def test_nobody_goes_on_without_the_process_that_reads(tmp_path: Path) -> None:
    capture = twice(traffic.LIBRDKAFKA, tmp_path / "capture")
    process = apart("--jobs", "3", capture)
    assert process.stdout is not None
    start = process.stdout.read(200_000)
    process.kill()
    rest, _ = process.communicate(timeout=60)
    assert len(start + rest) < len(run(tmp_path / "alone", 1, capture)[2])


def frame(size: int) -> Frame:
    return Frame(Side.CLIENT, 0, size, 0, 0, 0, [])


def test_chunks_end_by_items_or_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.captures.chunks.CHUNK_ITEMS", 3)
    monkeypatch.setattr("kproxy.captures.chunks.CHUNK_BYTES", 1000)
    batch = [exchange(number) for number in range(8)]
    batch[4].request, batch[4].response = frame(400), frame(600)
    assert [[item.number for item in part if isinstance(item, Exchange)] for part in chunks(batch)] == [
        [0, 1, 2], [3, 4], [5, 6, 7],
    ]  # fmt: skip
    assert list(chunks([])) == []


def test_text_of_large_exchanges_is_made_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "AT_ONCE", 3)
    batch = [exchange(number) for number in range(11)]
    for large in (0, 3, 4):
        batch[large].response = frame(engine.ALONE)
    assert [[item.number for item in part if isinstance(item, Exchange)] for part in engine._together(batch)] == [
        [0], [1, 2], [3], [4], [5, 6, 7], [8, 9, 10],
    ]  # fmt: skip
    assert list(engine._together([])) == []


def test_when_one_process_does_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.captures.cores.usable_cores", lambda: 4)

    def jobs(wanted: int | None, out: BinaryIO, selection: Selection | None = None, registry: str | None = None) -> int:
        viewing = Viewing(registry=registry)
        return export._jobs(wanted, source, out, selection or Selection(), viewing)

    source = open_source(traffic.LIBRDKAFKA)
    with (tmp_path / "out").open("wb") as out:
        assert jobs(None, out) == 1
        monkeypatch.setattr(export, "SMALL", source.size)
        assert jobs(None, out) == 4
        assert jobs(3, out) == 3
        assert jobs(3, out, Selection(count=5)) == 1
        assert jobs(3, out, Selection(parse("api == Fetch and record.key").expression)) == 3
        assert jobs(3, out, Selection(parse("api == Fetch and topic == a").expression)) == 1
        assert jobs(3, out, Selection(parse("broker == 2").expression)) == 1
        assert jobs(3, out, registry="http://registry") == 1
        assert jobs(3, io.BytesIO()) == 1
    source.close()
