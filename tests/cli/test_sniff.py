"""What `kproxy sniff` asks libpcap for, and what it refuses."""

from __future__ import annotations

import ctypes.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.captures.ports import Ports
from kproxy.captures.sniffing import Device, SniffError
from kproxy.cli.commands.sniff import packet_filter
from kproxy.cli.exits import Exit
from tests.cli.test_main import run


@pytest.mark.parametrize(
    ("bpf", "ports", "expected"),
    [
        ("", "9092", "tcp port 9092"),
        ("", "9092,19092-19095", "tcp port 9092 or tcp portrange 19092-19095"),
        ("host a or host b", None, "host a or host b"),
        ("host a or host b", "9092,9093", "(host a or host b) and (tcp port 9092 or tcp port 9093)"),
    ],
)
def test_the_packet_filter(bpf: str, ports: str | None, expected: str) -> None:
    assert packet_filter(bpf, None if ports is None else Ports.parse(ports)) == expected


def test_ports_are_written_as_they_are_read() -> None:
    ports = Ports.parse("9092,19092-19095")
    assert Ports.parse(str(ports)) == ports


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "Missing argument 'IFACE'"),
        (("lo", "--port", "70000"), "'70000' is not a range of ports"),
        (("lo", "--ring", "10x100MB"), "--ring needs -w DIR"),
        (("lo", "--scratch", "much"), "not a size (16M, 1G): 'much'"),
        (("lo", "-Y", "api =="), "\n  api ==\n"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: tuple[str, ...], says: str) -> None:
    result = run("sniff", *arguments)
    assert result.exit_code == Exit.USAGE
    assert says in result.stderr


@pytest.fixture
def without_libpcap(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import sys

    import scapy.libs

    monkeypatch.delitem(sys.modules, "scapy.libs.winpcapy", raising=False)
    monkeypatch.delattr(scapy.libs, "winpcapy", raising=False)
    monkeypatch.setattr(ctypes.util, "find_library", lambda _: None)
    yield
    sys.modules.pop("scapy.libs.winpcapy", None)


@pytest.mark.usefixtures("without_libpcap")
def test_a_missing_libpcap_is_named() -> None:
    with pytest.raises(SniffError, match="libpcap is not installed"):
        Device("lo", "")


def test_nothing_is_left_where_it_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.kproxy.support import places

    places(monkeypatch, tmp_path)
    assert run("sniff", "no-such-device", "--headless", "-w", str(tmp_path / "w")).exit_code in {
        Exit.USAGE,  # root; or no libpcap
        Exit.PERMISSION,
    }
    assert not [path for path in tmp_path.rglob("*") if path.is_file() or path.name.startswith("kproxy-")]
