"""Findings of captures in splits are those of one process: ids, numbers, evidence and order."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kproxy.captures.ports import Ports
from kproxy.captures.spark import local
from kproxy.captures.spark.plan.splits import plan
from kproxy.captures.spark.read import flows
from kproxy.captures.spark.read.flows import ITEMS, Options
from kproxy.captures.tables.schema import FINDINGS, USUAL
from kproxy.decoders.filters import parse
from tests.captures import files, traffic
from tests.captures.spark.comparing import Rows, assert_same, counted, exported
from tests.captures.spark.test_crossing import broken_off, doubled, in_pieces, kept_alive, one_side_later, overlapping
from tests.captures.spark.test_damaged import again, disordered, dropped, fragmented, later, repeated, tiny
from tests.support.thinned import thinned

Damage = Callable[[list[files.Packet], random.Random], list[files.Packet]]
ONLY = (FINDINGS.name,)
GOLDEN = traffic.DATA / "golden" / "golden-3.9.2.pcap"
SHARED = [
    traffic.KAFKA_1_1, traffic.LIBRDKAFKA, traffic.KAFKA_0_8, traffic.BENCH,
    *sorted((traffic.DATA / "findings").glob("*.pcap.xz")), GOLDEN, traffic.DATA / "golden" / "golden-4.4.0.pcap",
]  # fmt: skip
FIN, RST = 1, 4
DAMAGES: list[Damage] = [
    one_side_later(False), dropped, disordered, one_side_later(True), broken_off(FIN), broken_off(RST), again,
    overlapping, in_pieces, tiny, kept_alive, doubled, repeated, later, fragmented,
]  # fmt: skip
DAMAGED = [
    "responses later", "dropped", "disordered", "requests later", "FIN", "RST", "ports again", "overlapping", "pieces",
    "tiny", "keep-alive", "both interfaces", "repeated", "later", "fragmented",
]  # fmt: skip


def made(paths: Sequence[Path], size: int, **options: Any) -> Rows:
    return {FINDINGS.name: counted(local.tables(paths, Options(ONLY, **options), size=size)[FINDINGS.name].to_pylist())}


def assert_found(*paths: Path, most: int = 60) -> int:
    """The number of findings, which are those of an export in up to about `most` splits."""
    expected = exported(paths, tables=ONLY)
    size = max(path.stat().st_size for path in paths) // most
    for each in (size, 1 << 40):
        assert_same(made(paths, each), expected)
    return expected[FINDINGS.name].total()


@pytest.mark.parametrize("capture", thinned(SHARED, 12), ids=lambda path: path.name.split(".pcap")[0])
def test_every_shared_capture(capture: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap(traffic.packets(capture)) if capture.suffix == ".xz" else capture.read_bytes())
    assert len(plan([path], path.stat().st_size // 60).splits) > 2
    assert assert_found(path)


@pytest.mark.system
def test_an_end_in_two_splits(tmp_path: Path) -> None:
    """One side ends the connection in one split, the other side in the next: one process reads both at once."""
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap(traffic.packets(traffic.DATA / "findings" / "upgrade.refused.pcap.xz")))
    assert assert_found(path)


@pytest.mark.parametrize("how", thinned(DAMAGES, 4), ids=DAMAGED)
@pytest.mark.parametrize("capture", [traffic.KAFKA_1_1, traffic.LIBRDKAFKA], ids=lambda path: path.stem)
def test_damaged_captures(how: Damage, capture: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap(how(traffic.packets(capture), random.Random(3))))
    assert assert_found(path)


def test_captures_of_one_time(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    paths = [files.write(tmp_path / f"{number}.pcap", files.pcap(taken[number::3])) for number in range(3)]
    assert assert_found(*paths)


def test_several_files_of_which_one_is_cut(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.KAFKA_1_1)
    pieces = taken[:300], taken[301:500], [(time + 90_000_000_000, frame) for time, frame in taken[500:]]
    paths = [tmp_path / f"{number}.pcap" for number in range(3)]
    for path, some in zip(paths, pieces, strict=True):
        path.write_bytes(files.pcap(some))
    paths[0].write_bytes(paths[0].read_bytes()[:-9])
    assert assert_found(*paths)


@pytest.mark.parametrize(
    "text", ["api == Fetch or api == LeaderAndIsr", "topic == adm-t or broker == 2", "exchange > 40"]
)
def test_a_filter_selects_what_findings_rest_on(text: str) -> None:
    expected = exported([traffic.KAFKA_1_1], "-Y", text, tables=ONLY)
    assert expected[FINDINGS.name].total() > 0
    assert expected != exported([traffic.KAFKA_1_1], tables=ONLY)
    for size in (1 << 14, 1 << 40):
        assert_same(made([traffic.KAFKA_1_1], size, filter=parse(text).expression), expected)


def test_only_some_ports() -> None:
    expected = exported([traffic.KAFKA_1_1], "--port", "23002", tables=ONLY)
    assert expected[FINDINGS.name].total()
    assert_same(made([traffic.KAFKA_1_1], 1 << 14, ports=Ports.parse("23002")), expected)


def test_other_tables_stay_the_same() -> None:
    tables = ("exchanges", "exchange_topics", "flows", "anomalies", *ONLY)
    found = local.tables([traffic.KAFKA_1_1], Options(tables), size=1 << 14)
    expected = exported([traffic.KAFKA_1_1], tables=tables)
    assert_same({name: counted(found[name].to_pylist()) for name in tables}, expected)


def test_what_tls_hid_is_no_secret_in_clear() -> None:
    planned = plan([GOLDEN], 1 << 40)
    hidden = replace(planned, whole=((str(GOLDEN), "TLS is decrypted from the beginning on"),))
    assert (planned.decrypted, hidden.decrypted) == (False, True)
    rules = [{row["rule"] for row in _rows(one)} for one in (planned, hidden)]
    assert rules[0] - rules[1] == {"sec.cleartext"}


def _rows(planned: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = local.of_plan(planned, Options(ONLY))[FINDINGS.name].to_pylist()
    return rows


def test_there_are_no_events_unless_findings_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    def event(*_: object) -> None:
        pytest.fail("an event was made")

    monkeypatch.setattr(flows.Flow, "_event", event)
    planned = plan([traffic.KAFKA_1_1], 1 << 40)
    assert FINDINGS.name not in local.of_plan(planned, Options(USUAL))


def test_a_capture_without_packets(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(files.pcap([]))
    assert made([tmp_path / "a.pcap"], 1 << 40) == {FINDINGS.name: {}}


def test_batches_with_large_events_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "BYTES", 100)
    row = {"kind": "x", "range": 0, "nth": 0, "rank": 0, "standing": "final", "flow_id": 1}
    sizes = (1, 40, 60, 1, 300, 2)
    rows = [tuple((row | {"event": bytes(size)}).get(name) for name in ITEMS.names) for size in sizes]
    batches = list(flows.packed(iter(rows)))
    assert [batch.num_rows for batch in batches] == [3, 2, 1]
    assert pa.Table.from_batches(batches).column("event").to_pylist() == list(map(bytes, sizes))
