"""A capture that arrives in pieces: after each piece, the rows are those of an export of all pieces so far."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.spark import local
from kproxy.captures.spark.follow.carry import Carry
from kproxy.captures.spark.follow.state import unpack
from kproxy.captures.spark.plan.splits import plan
from kproxy.captures.spark.read.flows import Options
from kproxy.decoders.filters import parse
from tests.captures import files, traffic
from tests.captures.spark.comparing import TABLES, Rows, assert_same, counted, exported
from tests.captures.spark.test_damaged import again, disordered, dropped, later, repeated
from tests.captures.test_disorder import WINDOW, displaced
from tests.captures.test_poisoned import GARBAGE, poisoned
from tests.support.thinned import thinned

DIALECT = "coordinator-draft-2"
OPTIONS = Options(tuple(TABLES))
RECIPES = sorted((traffic.DATA / "findings").glob("*.pcap.xz"))
FOUND = ("exchanges", "findings")


def rotated(
    taken: Sequence[files.Packet], borders: Sequence[int], folder: Path, link: int = files.ETHERNET
) -> list[Path]:
    """Write packets into files; at each border a new file begins."""
    paths = []
    for number, (start, end) in enumerate(zip([0, *borders], [*borders, len(taken)], strict=True)):
        path = folder / f"c{number:05}.pcap"
        path.write_bytes(files.pcap(taken[start:end], link=link))
        paths.append(path)
    return paths


def streamed(
    batches: Sequence[Sequence[Path]],
    size: int = 1 << 40,
    options: Options = OPTIONS,
    kept: list[local.Batch] | None = None,
) -> list[Rows]:
    """The rows so far after each batch."""
    final: dict[str, list[Mapping[str, Any]]] = {name: [] for name in options.tables}
    carry, states, findings = Carry(), dict[int, bytes](), None
    found: list[Rows] = []
    for paths in batches:
        sent, _, order = local.ordered(plan(paths, size, carry.groups), size, payload=True)
        made = local.batch(sent, order, options, carry, states, findings)
        if kept is not None:
            kept.append(made)
        carry, states, findings = Carry.of(made.carry.json()), made.states, made.findings
        for name, table in made.final.items():
            final[name] += table.to_pylist()
        found.append({name: counted([*final[name], *made.open[name].to_pylist()]) for name in options.tables})
    return found


@pytest.mark.parametrize("count", thinned([2, 1, 5, 9], 1))
@pytest.mark.parametrize(
    "capture", thinned([traffic.KAFKA_1_1, traffic.LIBRDKAFKA, traffic.KAFKA_0_8], 1), ids=lambda path: path.stem
)
def test_after_each_batch_the_rows_are_those_of_an_export(capture: Path, count: int, tmp_path: Path) -> None:
    taken = traffic.packets(capture)
    borders = sorted(random.Random(count).sample(range(1, len(taken)), count - 1))
    paths = rotated(taken, borders, tmp_path)
    for index, rows in enumerate(streamed([[path] for path in paths])):
        assert_same(rows, exported(paths[: index + 1]))


def test_sizes_of_records_are_carried(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    paths = rotated(taken, [len(taken) // 3, len(taken) // 2], tmp_path)
    sizes = Options(tuple(TABLES), record_sizes=True)
    assert_same(streamed([[path] for path in paths], options=sizes)[-1], exported(paths, "--record-sizes"))


@pytest.mark.parametrize("capture", thinned(RECIPES, 6), ids=lambda path: path.name.split(".pcap")[0])
def test_after_each_batch_the_findings_are_those_of_an_export(capture: Path, tmp_path: Path) -> None:
    taken = traffic.packets(capture)
    borders = sorted(random.Random(capture.name).sample(range(1, len(taken)), 4))
    paths = rotated(taken, borders, tmp_path)
    for index, rows in enumerate(streamed([[path] for path in paths], options=Options(FOUND))):
        assert_same(rows, exported(paths[: index + 1], tables=FOUND))


def test_a_gap_at_the_end_of_a_batch_leaves_the_findings_right(tmp_path: Path) -> None:
    """What waits for missing packets is complete if the capture ends, and has its place before what other flows did."""
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        rng = random.Random(seed)
        taken = dropped(traffic.packets(RECIPES[0]), rng)
        paths = rotated(taken, sorted(rng.sample(range(1, len(taken)), 9)), folder)
        for index, rows in enumerate(streamed([[path] for path in paths], options=Options(FOUND))):
            assert_same(rows, exported(paths[: index + 1], tables=FOUND))


def moved(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:
    """Packets displaced within the reordering window, with times in the new order."""
    return displaced(taken, WINDOW, rng, true=False)


def garbled(taken: list[files.Packet], rng: random.Random) -> list[files.Packet]:
    """Packets with corrupted copies before some of them."""
    return poisoned(taken, GARBAGE["one wrong bit"], rng)[0]


@pytest.mark.parametrize("damage", thinned([later, dropped, disordered, repeated, again, moved, garbled], 1))
def test_damaged_captures(damage: Callable[..., list[files.Packet]], tmp_path: Path) -> None:
    rng = random.Random(7)
    taken = damage(traffic.packets(traffic.LIBRDKAFKA), rng)
    borders = sorted(rng.sample(range(1, len(taken)), 6))
    paths = rotated(taken, borders, tmp_path)
    expected = exported(paths)
    assert sum(map(len, expected.values())) > 400
    assert_same(streamed([paths[:2], paths[2:3], paths[3:6], paths[6:]], 1 << 14)[-1], expected)


def test_packets_that_wait_are_carried(tmp_path: Path) -> None:
    taken = moved(traffic.packets(traffic.LIBRDKAFKA), random.Random(5))
    paths = rotated(taken, [len(taken) // 2], tmp_path)
    batches: list[local.Batch] = []
    assert_same(streamed([[path] for path in paths], kept=batches)[-1], exported(paths))
    classes = [name for state in batches[0].states.values() for _, name, _ in unpack(state)[0].get("classes", ())]
    assert "Arrival" in classes


@pytest.mark.system
def test_connections_that_are_over_leave_next_to_nothing(tmp_path: Path) -> None:
    """The connections' ports are used again an hour later."""
    taken = traffic.packets(traffic.LIBRDKAFKA)
    paths = rotated(again(taken, random.Random()), [len(taken), len(taken) + 1, len(taken) + 300], tmp_path)
    batches: list[local.Batch] = []
    for index, found in enumerate(streamed([[path] for path in paths], kept=batches)):
        assert_same(found, exported(paths[: index + 1]))
    sizes = sorted(map(len, batches[1].states.values()))
    assert sizes[len(sizes) // 2] < 100
    assert len(batches[1].open["flows"]) < len(batches[0].open["flows"]) // 2


@pytest.mark.system
def test_a_filter_and_every_api(tmp_path: Path) -> None:
    every = traffic.packets(traffic.DATA / "golden" / "golden-4.4.0.pcap")
    taken = [one for one in every if sum(struct.unpack_from(">HH", one[1], 14 + (one[1][14] & 15) * 4)) % 3 == 0]
    paths = rotated(taken, [len(taken) // 3, len(taken) // 2], tmp_path)
    only = Options(tuple(TABLES), filter=parse("api != Fetch").expression)
    assert_same(streamed([[path] for path in paths], options=only)[-1], exported(paths, "-Y", "api != Fetch"))


def test_the_state_has_the_bytes_that_are_needed_and_no_others(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.LIBRDKAFKA)
    batches: list[local.Batch] = []
    streamed([[path] for path in rotated(taken, [len(taken) // 2], tmp_path)], kept=batches)
    held = sum(map(len, batches[0].states.values()))
    assert held < 10_000 * len(batches[0].states)


@pytest.mark.system
def test_a_frame_that_a_border_cuts_is_carried(tmp_path: Path) -> None:
    """The capture is cut at every packet."""
    taken = traffic.packets(traffic.LIBRDKAFKA)[:60]
    paths = rotated(taken, range(1, len(taken)), tmp_path)
    assert_same(streamed([[path] for path in paths])[-1], exported(paths))


def test_a_dialect(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.DATA / "dialects" / "coordinator-draft-2.pcap")
    paths = rotated(taken, [len(taken) // 3, len(taken) // 2], tmp_path, 101)
    expected = exported(paths, "--definitions", DIALECT)
    assert any(dict(row)["protocol"] for row in expected["exchanges"])
    assert_same(
        streamed([[path] for path in paths], options=Options(tuple(TABLES), user_definitions=(DIALECT,)))[-1], expected
    )
