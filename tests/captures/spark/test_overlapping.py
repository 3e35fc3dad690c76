"""Captures of one time, read in slices, give the rows that one process gives of the merged file."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kproxy.captures import joining
from kproxy.captures.ports import Ports
from kproxy.captures.spark import local
from kproxy.captures.spark.plan.splits import Plan, plan
from kproxy.captures.spark.read import merging, reading
from kproxy.captures.spark.read.addressed import ByAddress
from kproxy.captures.spark.read.flows import Options
from tests.captures import files, traffic
from tests.captures.spark.comparing import TABLES, assert_same, counted, exported

SOME = traffic.packets(traffic.LIBRDKAFKA)[:900]
SECOND = 1_000_000_000


def by_host(taken: Sequence[files.Packet], count: int) -> list[list[files.Packet]]:
    """Each connection in one capture, as brokers record it that are captured at once."""
    return [[one for one in taken if sum(traffic.ports(one[1])) // 2 % count == number] for number in range(count)]


def in_turns(taken: Sequence[files.Packet], count: int) -> list[list[files.Packet]]:
    return [list(taken[number::count]) for number in range(count)]


def one_way(taken: Sequence[files.Packet], count: int) -> list[list[files.Packet]]:
    """The two directions of a tap."""
    assert count > 1
    return [
        [one for one in taken if (traffic.ports(one[1])[0] > traffic.ports(one[1])[1]) is side]
        for side in (True, False)
    ]


def at_both_ends(taken: Sequence[files.Packet], count: int) -> list[list[files.Packet]]:
    """The same packets in each capture, a little later in each."""
    return [[(time + number * 30_000, frame) for time, frame in taken] for number in range(count)]


def one_after_another(taken: Sequence[files.Packet], count: int) -> list[list[files.Packet]]:
    """Rotated files, each of which begins two seconds before the one before it ends."""
    size = len(taken) // count
    return [
        [(time - number * 2 * SECOND, frame) for time, frame in taken[number * size : (number + 1) * size]]
        for number in range(count)
    ]


def written(folder: Path, parts: Sequence[Sequence[files.Packet]]) -> list[Path]:
    """Write each part as a capture: in turn as pcap, as pcapng with comments, and as pcap with times in nanoseconds."""
    paths = []
    for number, taken in enumerate(parts):
        if number % 3 == 1:
            comments = (("a comment",), (), ())
            blocks = [
                files.enhanced(0, time // 1000, frame, comments=comments[i % 3])
                for i, (time, frame) in enumerate(taken)
            ]
            data = b"".join([files.section(), files.interface(), *blocks])
        else:
            data = files.pcap(taken, nano=number % 3 == 2)
        paths.append(files.write(folder / f"{9 - number}.pcap", data))
    return paths


def sliced(paths: Sequence[Path], size: int, options: Options | None = None) -> Plan:
    """The corrected plan of captures."""
    options = options or Options(tuple(TABLES))
    _, planned, _ = local.ordered(plan(paths, size), size, options.ports)
    return planned


def assert_sliced(paths: Sequence[Path], size: int, *more: str, options: Options | None = None) -> Plan:
    """The corrected plan of captures, after the assertion that its tables equal those of an export."""
    options = options or Options(tuple(TABLES))
    planned = sliced(paths, size, options)
    tables = local.of_plan(planned, options, size=size)
    assert_same({name: counted(tables[name].to_pylist()) for name in TABLES}, exported(paths, *more))
    return planned


@pytest.mark.parametrize("parted", [by_host, in_turns, one_way, at_both_ends, one_after_another])
@pytest.mark.parametrize("size", [1 << 12, 1 << 15, 1 << 40])
def test_as_exported(
    parted: Callable[[Sequence[files.Packet], int], list[list[files.Packet]]], size: int, tmp_path: Path
) -> None:
    planned = assert_sliced(written(tmp_path, parted(SOME, 3)), size)
    parts = [split.slice for split in planned.splits]
    assert None not in parts
    assert len(parts) == 1 if size == 1 << 40 else len(parts) > 3
    assert not planned.whole


def test_many_files_are_hardly_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice reads little of what each file has before it, however many files there are."""
    monkeypatch.setattr(reading, "MARKS", 1000)
    monkeypatch.setattr(reading, "BATCH", 4)
    monkeypatch.setattr(merging, "BATCH", 4)
    paths = written(tmp_path, by_host(SOME, 12))
    walked: list[int] = []
    real = merging._Stream.fill

    def counted(self: merging._Stream) -> bool:
        before = self.walker.position
        found = real(self)
        walked.append(self.walker.position - before)
        return found

    monkeypatch.setattr(merging._Stream, "fill", counted)
    planned = assert_sliced(paths, 1 << 14)
    assert len(planned.splits) > 4
    # once for the plan, once for the rows
    assert sum(walked) < 2 * 2 * sum(path.stat().st_size for path in paths)


def test_no_payload_is_sent(tmp_path: Path) -> None:
    paths = written(tmp_path, by_host(SOME, 3))
    sent, _, _ = local.ordered(plan(paths, 1 << 14), 1 << 14)
    size = sum(len(data) for batch in sent for data in batch.column("data").to_pylist() if data is not None)
    assert size < sum(path.stat().st_size for path in paths) // 5


def test_with_ports_and_a_filter(tmp_path: Path) -> None:
    from kproxy.decoders.filters import parse

    paths = written(tmp_path, in_turns(traffic.packets(traffic.KAFKA_1_1), 2))
    assert_sliced(paths, 1 << 14, "--port", "23002", options=Options(tuple(TABLES), ports=Ports.parse("23002")))
    chosen = Options(tuple(TABLES), filter=parse("topic ~ '.' and exchange > 20").expression)
    assert_sliced(paths, 1 << 14, "-Y", "topic ~ '.' and exchange > 20", options=chosen)


def test_a_group_beside_files_of_other_times(tmp_path: Path) -> None:
    later = [(time + 4_000 * SECOND, frame) for time, frame in SOME]
    latest = [(time + 8_000 * SECOND, frame) for time, frame in SOME[:300]]
    paths = written(tmp_path, [*in_turns(SOME, 2), *by_host(later, 3), latest])
    planned = assert_sliced(paths, 1 << 14)
    assert [len(group) for group in planned.groups] == [2, 3, 1]
    assert {len(split.paths) for split in planned.splits if split.slice is not None} == {2, 3}


@pytest.mark.parametrize("damaged", [(0,), (1,), (0, 1)])
def test_damaged_files_among_them_are_merged_by_one_task(damaged: Sequence[int], tmp_path: Path) -> None:
    paths = written(tmp_path, in_turns(SOME, 2))
    for number in damaged:
        paths[number].write_bytes(paths[number].read_bytes()[:-7])
    planned = assert_sliced(paths, 1 << 14)
    assert [split.slice for split in planned.splits] == [None]


def test_files_of_which_one_ends_early(tmp_path: Path) -> None:
    """Later slices hold nothing of one file, whose size they count nevertheless."""
    one, other = in_turns(SOME, 2)
    assert_sliced(written(tmp_path, [one[:60], other]), 1 << 12)
    assert_sliced(written(tmp_path, [one[200:260], other]), 1 << 12)


def test_times_that_go_back(tmp_path: Path) -> None:
    dice = random.Random(1)
    parts = [[(time + dice.randrange(SECOND), frame) for time, frame in taken] for taken in in_turns(SOME, 3)]
    assert_sliced(written(tmp_path, parts), 1 << 13)


def test_a_file_that_changed_is_named(tmp_path: Path) -> None:
    paths = written(tmp_path, in_turns(SOME, 2))
    planned = sliced(paths, 1 << 14)
    paths[0].write_bytes(paths[0].read_bytes()[:-100])
    with pytest.raises(Exception, match="changed"):
        local.of_plan(planned, Options(tuple(TABLES)), size=1 << 14)


@given(
    steps=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=2, max_size=60),
    size=st.sampled_from([1, 300, 1 << 12]),
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_order_and_equal_times(
    steps: list[tuple[int, int]], size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However packets are spread over files, and whatever times are equal, every packet has its place and its bytes."""
    parts: list[list[files.Packet]] = [[], [], []]
    time = SOME[0][0]
    for (number, step), (_, frame) in zip(steps, SOME, strict=False):
        time += step * 1000
        parts[number].append((time, frame))
    paths = written(tmp_path_factory.mktemp("any"), [part for part in parts if part])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "BATCH", 3)
        patch.setattr(joining, "BATCH", 2)
        assert_sliced(paths, size)


def test_moved_bytes_are_read_at_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are made from the given files: there is no merged copy."""
    paths = written(tmp_path, by_host(SOME, 2))
    planned = sliced(paths, 1 << 14)
    opened: set[str] = set()
    real = ByAddress._open

    def noted(self: ByAddress, group: int) -> bool:
        opened.add(self.addressed.files[group][0])
        return real(self, group)

    monkeypatch.setattr(ByAddress, "_open", noted)
    monkeypatch.setattr(joining.JoinedSource, "_merge", lambda *_: pytest.fail("merged"))
    local.of_plan(planned, Options(tuple(TABLES)), size=1 << 14)
    assert opened == {str(path) for path in paths}
