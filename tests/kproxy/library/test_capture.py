"""`kproxy.open`, judged by the commands `export`, `findings` and `stats` for the same captures."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kproxy
from kproxy.cli.main import main

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
FINDINGS = Path(__file__).parents[2] / "data" / "findings"
MODERN = CAPTURES / "kafka-4.4.0-librdkafka.pcap"
OLD = CAPTURES / "kafka-0.8.2.2.pcap"
EVERY = [*sorted(CAPTURES.glob("*.pcap")), CAPTURES / "kafka-1.1.1.seekable.pcap.zst"]


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def printed(*args: str | Path) -> list[str]:
    """The lines that a command prints."""
    return CliRunner().invoke(main, list(map(str, args))).stdout.splitlines()


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_the_lines_are_those_of_an_export(path: Path) -> None:
    with kproxy.open(path) as capture:
        assert list(capture.lines()) == printed("export", path)


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_exchanges_are_those_of_an_export_in_any_order_of_decoding(path: Path) -> None:
    wanted = [line for line in map(json.loads, printed("export", path)) if line["schema"] == "kproxy.exchange/1"]
    with kproxy.open(path) as capture:
        exchanges = list(capture)
        shown = {one.number: json.loads(one.to_json()) for one in reversed(exchanges)}
    assert [one.number for one in exchanges] == [line["exchange"] for line in wanted]
    for line in wanted:
        # A name of a topic id that a later response tells may be known earlier here.
        ours = shown[line["exchange"]]
        assert (ours.pop("topics", {}) or {}).items() >= (line.pop("topics", {}) or {}).items()
        assert ours == line


def test_records_are_those_of_an_export() -> None:
    with kproxy.open(MODERN) as capture:
        assert [record.to_json() for record in capture.records()] == printed("export", MODERN, "--format", "records")


def test_a_filter() -> None:
    with kproxy.open(MODERN) as capture:
        every = list(capture)
        chosen = capture.where("api == Produce").where("latency > 20ms")
        assert [one.number for one in chosen] == [
            one.number for one in every if one.api == "Produce" and (one.latency_ms or 0) > 20
        ]
        lines = printed("export", MODERN, "-Y", "api == Produce and latency > 20ms")
        assert list(chosen.lines()) == lines
        assert [one.number for one in capture] == [one.number for one in every]
        assert [one.number for one in capture.where(" ")] == [one.number for one in every]
        assert repr(chosen) == f"<Capture {MODERN} where api == Produce and latency > 20ms>"


def test_exchanges_that_a_filter_could_not_decide_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "middle.pcap"
    data = MODERN.read_bytes()
    path.write_bytes(data[:24] + data[_packet_after(data, 100_000) :])
    said = CliRunner().invoke(main, ["export", str(path), "-Y", "topic == shop-orders"]).stderr
    (count,) = re.findall(r"([\d,]+) exchanges left out because the filter could not decide", said)
    with kproxy.open(path) as capture:
        chosen = capture.where("topic == shop-orders")
        assert not chosen.undecided
        assert list(chosen)
        assert sum(chosen.undecided.values()) == int(count.replace(",", ""))


def _packet_after(data: bytes, wanted: int) -> int:
    """The offset of the first packet record of a pcap file that begins at `wanted` or later."""
    at = 24
    while at < wanted:
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    return at


@pytest.mark.parametrize("text", ["api ==", "apy == Produce", "time >= -60s"])
def test_a_wrong_filter_has_a_caret_or_a_reason(text: str) -> None:
    with kproxy.open(MODERN) as capture, pytest.raises(kproxy.FilterError) as error:
        capture.where(text)
    assert "^" in str(error.value) or "give a time" in str(error.value)


def test_iterations_are_independent_of_each_other() -> None:
    with kproxy.open([MODERN]) as capture:
        outer = iter(capture)
        first = next(outer)
        assert [one.number for one in capture][:1] == [first.number]
        assert next(outer).number != first.number
        assert first.request is not None
        assert sum(1 for _ in outer) > 100


def test_findings_and_stats_are_those_of_the_commands() -> None:
    path = next(FINDINGS.glob("group.poll_gap*"))
    with kproxy.open(path) as capture:
        *findings, health = map(json.loads, printed("findings", "--json", path))
        assert capture.findings("note") == findings
        assert findings
        assert len(capture.findings("info")) >= len(findings)
        with pytest.raises(ValueError, match="not a severity; there are info, note, warn, error"):
            capture.findings("bad")
        assert capture.health["packets"] == health["packets"]
        for by in ("api", "client", "broker", "topic"):
            *lines, _ = map(json.loads, printed("stats", "--json", path, "--by", by))
            assert capture.stats(by) == lines
        some = capture.where("api == Metadata")
        assert (
            some.findings() == list(map(json.loads, printed("findings", "--json", path, "-Y", "api == Metadata")))[:-1]
        )


def test_a_summary_agrees_with_what_it_sums_up() -> None:
    with kproxy.open(MODERN) as capture:
        summary = capture.summary()
        exchanges = list(capture)
        times = sorted(one.time for one in exchanges)
        assert summary["exchanges"] == len(exchanges)
        assert [summary[name][:26] for name in ("first_time", "last_time")] == [
            time.isoformat(timespec="microseconds")[:26] for time in (times[0], times[-1])
        ]
        for name, attribute in (("clients", "client_id"), ("brokers", "broker")):
            assert summary[name] == Counter(getattr(one, attribute) or "(no client id)" for one in exchanges)
        assert summary["apis"] == capture.stats()
        found = Counter(one["severity"] for one in capture.findings("info"))
        assert summary["findings"] == {name: found[name] for name in ("error", "warn", "note", "info")}
        assert summary["health"] == capture.health
        nothing = capture.where("api == Envelope").summary()
        assert (nothing["exchanges"], nothing["first_time"], nothing["apis"]) == (0, None, [])


def test_health_reads_the_capture_if_nobody_has() -> None:
    with kproxy.open(MODERN) as capture:
        assert capture.health == json.loads(printed("export", MODERN)[-1]) | {"undecoded": 0}


def test_several_files_are_read_as_one_in_the_order_of_time() -> None:
    with kproxy.open([MODERN, OLD]) as capture:
        assert list(capture.lines()) == printed("export", MODERN, OLD)


def test_a_damaged_capture_gives_what_is_before_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(MODERN.read_bytes()[:100_000] + b"\xff" * 1000)
    with kproxy.open(path) as capture:
        found: list[kproxy.Exchange] = []
        with pytest.raises(kproxy.CaptureError) as error:
            found.extend(capture)
        assert len(found) > 10
        assert str(path) in str(error.value)
        for read in (capture.findings, capture.stats, capture.to_arrow, lambda: list(capture.records())):
            with pytest.raises(kproxy.CaptureError):
                read()
    assert found[0].api is not None


def test_a_damaged_capture_that_is_not_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(MODERN.read_bytes()[:100_000] + b"\xff" * 1000)
    with kproxy.open(path, strict=False) as capture:
        assert not capture.errors
        count = sum(1 for _ in capture)
        assert count > 10
        assert [str(path) in str(error) for error in capture.errors] == [True]
        assert capture.to_arrow().num_rows == count
        assert sum(line["count"] for line in capture.stats()) == count
        assert capture.findings("info") == list(
            map(json.loads, printed("findings", "--json", "--severity", "info", path)[:-1])
        )
        assert list(capture.records())
        assert capture.view("topics")
        with pytest.raises(ValueError, match="there are topics, groups"):
            capture.view("topic")


def test_problems_of_connections(tmp_path: Path) -> None:
    path = tmp_path / "odd.pcap"
    data = bytearray(MODERN.read_bytes())
    path.write_bytes(data[:24] + data[2_000:2_000])
    with kproxy.open(path) as capture:
        assert list(capture) == list(capture.problems()) == []
    wanted = [line for line in map(json.loads, printed("export", OLD)) if line["schema"] == "kproxy.problem/1"]
    with kproxy.open(OLD) as capture:
        assert list(capture.problems()) == wanted


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(kproxy.CaptureError, match="No such file"):
        kproxy.open(tmp_path / "no.pcap")
    with pytest.raises(ValueError, match="name at least one capture"):
        kproxy.open([])
    with pytest.raises(ValueError, match="not a port"):
        kproxy.open(MODERN, ports="kafka")
    with pytest.raises(ValueError, match=r"0\.7"):
        kproxy.open(MODERN, release="0.7")
    with kproxy.open(MODERN) as capture, pytest.raises(ValueError, match="there is no table 'no'; there are exchanges"):
        capture.to_arrow("no")


def test_ports() -> None:
    with kproxy.open(MODERN, ports=19092) as capture:
        assert sum(1 for _ in capture) == 176
    with kproxy.open(MODERN, ports="1-2") as capture:
        assert not list(capture)


def test_after_the_end_of_the_block_headers_and_decoded_bodies_stay() -> None:
    with kproxy.open(MODERN) as capture:
        narrowed = capture.where("api == Produce")
        decoded, other = list(narrowed)[:2]
        body = decoded.request
    assert decoded.request == body
    assert other.api == "Produce"
    assert other.latency_ms is not None
    for ask in (lambda: other.request, lambda: other.request_bytes, lambda: other.tree, lambda: other.topics):
        with pytest.raises(ValueError, match="the capture is closed"):
            ask()
    for one in (capture, narrowed):
        with pytest.raises(ValueError, match="the capture is closed"):
            list(one)
    capture.close()


def test_files_close_when_nothing_uses_them() -> None:
    before = descriptors()
    capture = kproxy.open(MODERN)
    exchanges = [next(iter(capture)) for _ in range(5)]
    assert descriptors() > before
    assert exchanges[-1].request is not None
    del capture, exchanges
    assert descriptors() <= before


def test_standard_input_is_read_once() -> None:
    program = """
import kproxy
capture = kproxy.open("-")
print(sum(1 for _ in capture))
try:
    list(capture)
except kproxy.CaptureError as error:
    print(error)
"""
    with MODERN.open("rb") as stdin:
        done = subprocess.run(
            [sys.executable, "-c", program], stdin=stdin, capture_output=True, text=True, check=True, timeout=60
        )
    assert done.stdout.splitlines() == ["176", "-: standard input can be read once only"]


def test_log_segments_have_records_only(tmp_path: Path) -> None:
    with kproxy.open(MODERN) as capture:
        exchange = next(iter(capture.where("exchange == 6")))
        batch = _batch(exchange.request_bytes)
        keys = [record.key for record in exchange.records()]
    folder = tmp_path / "orders-3"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(batch)
    with kproxy.open(folder) as capture:
        records = list(capture.records())
        assert [(one.topic, one.partition, one.exchange, one.key) for one in records] == [
            ("orders", 3, None, key) for key in keys
        ]
        for read in (list, kproxy.Capture.findings, kproxy.Capture.to_arrow):
            with pytest.raises(ValueError, match="log segments have no exchanges"):
                read(capture)
    shutil.rmtree(folder)


def _batch(frame: bytes) -> bytes:
    """The only record batch in a Produce request, whose length field is four bytes before its last ones."""
    at = frame.index(b"\0\0\0\0\0\0\0\0\0\0\0", 30)
    size = int.from_bytes(frame[at + 8 : at + 12], "big")
    return frame[at : at + 12 + size]


def test_it_takes_what_the_file_system_takes(tmp_path: Path) -> None:
    shutil.copy(MODERN, tmp_path / "a.pcap")

    class Named:
        def __fspath__(self) -> str:
            return str(tmp_path / "a.pcap")

    for given in (str(tmp_path / "a.pcap"), Named(), [Named()]):
        with kproxy.open(given) as capture:
            assert next(iter(capture)).number == 1


def test_what_an_interpreter_shows() -> None:
    with kproxy.open(MODERN) as capture:
        exchange = next(iter(capture.where("exchange == 6")))
        record = next(exchange.records())
        shown: dict[str, Any] = dict(exchange.__rich_repr__())
        assert repr(exchange) == ("<Exchange 6: Produce v10 127.0.0.1:43126 → 127.0.0.1:19092, ok, 17.973 ms>")
        assert repr(record) == "<Record shop-orders-0@0: key b'k0', value None>"
        assert (shown["api"], shown["number"]) == ("Produce", 6)
        assert repr(exchange.tree).startswith("<Tree of ")
