"""Captures of TLS with a key log give the same rows as an export with it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kproxy.captures.errors import CaptureError
from kproxy.captures.ring import segment_name
from kproxy.captures.spark import local
from kproxy.captures.spark.plan.splits import plan
from kproxy.captures.spark.read.flows import Options
from kproxy.captures.tls.keylog import read
from tests.captures import files, traffic
from tests.captures.spark.comparing import TABLES, Rows, assert_same, counted, exported
from tests.captures.tls.test_decrypting import captured, conversation, spoken
from tests.captures.tls.wire import Wire
from tests.support.certificates import TestCa

OPTIONS = Options(tuple(TABLES))


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Wire:
    folder = tmp_path_factory.mktemp("tls")
    wire = Wire(folder, TestCa(folder, "ca").leaf("broker", "localhost"))
    spoken(wire, conversation())
    return wire


def made(paths: list[Path], log: Path) -> Rows:
    found = local.tables(paths, OPTIONS, size=1 << 14, secrets=read(log))
    return {name: counted(found[name].to_pylist()) for name in TABLES}


def test_a_key_log(wire: Wire, tmp_path: Path) -> None:
    path = captured(tmp_path / "a.pcap", wire.packets)
    expected = exported([path], "--keylog", str(wire.log))
    assert not any(dict(row)["tls"] for row in expected["flows"])
    assert expected["exchanges"].total() > 20
    assert_same(made([path], wire.log), expected)


def test_rotated_files(wire: Wire, tmp_path: Path) -> None:
    """Only the first file has the handshake, and one file is plain traffic."""
    half = len(wire.packets) // 2
    paths = [captured(tmp_path / "b.pcap", wire.packets[half:]), captured(tmp_path / "a.pcap", wire.packets[:half])]
    (tmp_path / "plain.pcap").write_bytes(files.pcap(traffic.packets(traffic.LIBRDKAFKA)[:200]))
    paths.append(tmp_path / "plain.pcap")
    assert_same(made(paths, wire.log), exported(paths, "--keylog", str(wire.log)))


def test_a_recording(wire: Wire, tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    folder.mkdir()
    half = len(wire.packets) // 2
    for number, taken in enumerate((wire.packets[:half], wire.packets[half:]), 1):
        captured(folder / segment_name(number, taken[0][0] / 1e9), taken)
    assert_same(made([folder], wire.log), exported([folder], "--keylog", str(wire.log)))


def test_executors_need_no_key_log(wire: Wire, tmp_path: Path) -> None:
    path = captured(tmp_path / "a.pcap", wire.packets)
    log = tmp_path / "keys.log"
    log.write_bytes(wire.log.read_bytes())
    expected = exported([path], "--keylog", str(log))
    planned = plan([path], 1 << 14, secrets=read(log))
    log.unlink()
    found = local.of_plan(pickle.loads(pickle.dumps(planned)), OPTIONS)
    assert_same({name: counted(found[name].to_pylist()) for name in TABLES}, expected)
    assert planned.whole == ((str(path), "TLS is decrypted from the beginning on"),)
    assert "secrets" not in repr(planned)


def test_secrets_of_others_and_no_key_log(wire: Wire, tmp_path: Path) -> None:
    path = captured(tmp_path / "a.pcap", wire.packets)
    other = tmp_path / "other.log"
    other.write_text(f"CLIENT_RANDOM {'00' * 32} {'11' * 48}\n")
    expected = exported([path], "--keylog", str(other))
    assert all(dict(row)["tls"] for row in expected["flows"])
    assert_same(made([path], other), expected)
    with pytest.raises(CaptureError, match="not a key log"):
        made([path], path)
