"""Ports, sizes, addresses and directories."""

from __future__ import annotations

import os
import re
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from kproxy.captures import private
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from kproxy.core.brokers import Advertise, Book, Node, split_address
from kproxy.core.rewrite import varint
from kproxy.decoders.fields import FIELDS
from kproxy.decoders.filters.language import REQUEST
from kproxy.relay import ports
from kproxy.runs import scratch
from kproxy.runs.settings import advertise, listen, record_filter, ring, size, upstream
from tests.support.homes import homes


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("kafka", ("kafka", None)),
        ("kafka:1", ("kafka", 1)),
        ("[::1]:2", ("::1", 2)),
        ("[::1]", ("::1", None)),
        ("fe80::1", ("fe80::1", None)),
    ],
)
def test_addresses(text: str, parts: tuple[str, int | None]) -> None:
    assert split_address(text) == parts


@pytest.mark.parametrize("text", ["a:x", "a:99999", "[::1", "[::1]x", "a:-1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="no "):
        split_address(text)


def test_listen_and_upstream() -> None:
    assert listen("19093") == ("127.0.0.1", 19093)
    assert listen("0.0.0.0:1") == ("0.0.0.0", 1)
    assert listen("*:1") == ("*", 1)
    assert listen(":1") == ("127.0.0.1", 1)
    assert upstream("a, b:1") == (("a", 9092), ("b", 1))
    for text in ("x", "", "a:b"):
        with pytest.raises(ValueError, match="no "):
            listen(text)
    for text in ("a,,b", "kafka..local:9092", "x" * 64, "kafka:0"):
        with pytest.raises(ValueError, match=r"no host|not a host name|no port"):
            upstream(text)


def test_what_can_be_advertised() -> None:
    for text in ("", "proxy.example", "{broker}.kafka.local:{port}", "[::1]", "b{broker}.example:443"):
        assert advertise(text) == text
    for text in ("x:99999", "{brokr}.x", "a b", ":1", "a..b", "{port"):
        with pytest.raises(ValueError, match=r"no |not a host name"):
            advertise(text)


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("64k", 65536), ("256MiB", 256 << 20), ("2g", 2 << 30)])
def test_sizes(text: str, value: int) -> None:
    assert size(text) == value


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5M", "1 2"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        size(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("10x100MB", (10, 100 << 20, None)), ("2x1M,90s", (2, 1 << 20, 90)), (" 24 x 1g, 1h ", (24, 1 << 30, 3600))],
)
def test_rings(text: str, value: tuple[int, int, int | None]) -> None:
    assert ring(text) == value


@pytest.mark.parametrize("text", ["", "10", "10x", "x100M", "10x100M,", "10x100M,5", "1x1M", "2x1k", "2x1T", "2x1M,0s"])
def test_what_is_no_ring(text: str) -> None:
    with pytest.raises(ValueError, match=r"ring|size"):
        ring(text)


@pytest.mark.parametrize(
    "text",
    [
        "api != Fetch",
        "version > 3 and not client.id ~ x",
        "client == 10.0.0.1 or broker",
        "class == group and broker != k:9092",
    ],
)
def test_what_can_be_recorded(text: str) -> None:
    assert record_filter(text) == text


@pytest.mark.parametrize("field", [field.name for field in FIELDS if field.name not in REQUEST])
def test_what_is_not_known_when_a_request_begins(field: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{field} (")) as refused:
        record_filter(f"api == Fetch or not {field}")
    assert str(refused.value).endswith("use api, class, version, client.id, client, broker")


@pytest.mark.parametrize(
    ("text", "named"),
    [("request.body.acks == 0", "request.body.acks (from the request's body)"), ("record.key", "record.key (key of"),
     ("all topic == a or api", "topic ("), ("broker == 2", "node id"), ("not broker in (k:9092, 2)", "node id")],
)  # fmt: skip
def test_a_filter_that_needs_more_than_a_header_names_it(text: str, named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        record_filter(text)


def test_a_taken_port_gives_the_next_free_one() -> None:
    (first,) = ports.bind("127.0.0.1", 0)
    taken = first.getsockname()[1]
    port, (second,) = ports.bind_next("127.0.0.1", taken, taken, set())
    assert port > taken or port < taken  # whatever it is, it is another
    beyond, (third,) = ports.bind_next("127.0.0.1", 70_000, taken, {taken, port})
    assert beyond not in {taken, port}
    for opened in (first, second, third):
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        opened.close()


def test_a_taken_port_is_an_error_for_bind() -> None:
    (first,) = ports.bind("127.0.0.1", 0)
    with pytest.raises(OSError, match="in use"):
        ports.bind("127.0.0.1", first.getsockname()[1])
    first.close()


def test_every_address() -> None:
    sockets = ports.bind(ports.ANY, 0)
    assert len({opened.getsockname()[1] for opened in sockets}) == 1
    for opened in sockets:
        opened.close()


def test_a_brokers_address_may_change() -> None:
    opened: list[int] = []

    def listener(node: Node) -> int:
        opened.append(node.node_id)
        return 20_000 + node.node_id

    book = Book(listener, Advertise(""))
    assert book.ours(1, "old", 9092, "127.0.0.1") == ("127.0.0.1", 20_001)
    assert book.ours(1, "new", 9093, "127.0.0.1") == ("127.0.0.1", 20_001)
    assert (book.nodes[1].host, book.nodes[1].port) == ("new", 9093)
    assert opened == [1]
    assert book.known.search(b"..\x03old\0\0\x23\x84").address == ("old", 9092)
    assert book.known.search(b"..\x04new\0\0\x23\x85").address == ("new", 9093)
    assert book.known.search(b"\x07my-old\0\0\x23\x84").address is None
    assert book.known.search(b"\x07my-old\0\0\x23\x84\0\x03old\0\0\x23\x84").address == ("old", 9092)


@pytest.mark.parametrize("flexible", [True, False])
@pytest.mark.parametrize("size", [1, 125, 126, 127, 128, 200])
def test_a_leak_is_found_whatever_the_length_of_the_host(size: int, flexible: bool) -> None:
    book = Book(lambda _: 0)
    host = "h" * size
    book.known.remember(host, 9092)
    length = varint(size + 1) if flexible else size.to_bytes(2, "big")
    assert book.known.search(b"\0" + length + host.encode() + (9092).to_bytes(4, "big")).address == (host, 9092)


@pytest.mark.parametrize(
    ("template", "address"),
    [
        ("", ("10.0.0.9", 19094)),
        ("proxy.example", ("proxy.example", 19094)),
        ("{broker}.kafka.local:{port}", ("1.kafka.local", 19094)),
        ("b{broker}.example:443", ("b1.example", 443)),
        ("{host}.proxied:{port}", ("kafka.proxied", 19094)),
        ("{host}", ("kafka", 19094)),
    ],
)
def test_what_is_advertised(template: str, address: tuple[str, int]) -> None:
    assert Advertise(template).address(Node(1, "kafka", 9092, 19094), "10.0.0.9") == address


def test_directories_are_private_and_stale_ones_go(tmp_path: Path) -> None:
    parent = tmp_path / "runs"
    living, dead, unclaimed = (scratch.new(parent, "x") for _ in range(3))
    claim = scratch.hold(living)
    os.close(scratch.hold(dead))
    scratch.new(parent, "x")
    assert living.exists()
    assert unclaimed.exists()
    assert not dead.exists()
    assert scratch.is_live(living)
    assert stat.S_IMODE(living.stat().st_mode) == stat.S_IMODE(parent.stat().st_mode) == 0o700
    os.close(claim)
    assert not scratch.is_live(living)


def test_the_ring_goes_to_the_spool_where_shared_memory_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "SHARED_MEMORY", tmp_path / "missing")
    assert scratch.ring(1 << 20, tmp_path / "spool").parent == tmp_path / "spool"
    shared = tmp_path / "shm"
    shared.mkdir()
    monkeypatch.setattr(scratch, "SHARED_MEMORY", shared)
    assert scratch.ring(1 << 20, tmp_path / "spool").parent == shared
    assert scratch.ring(1 << 60, tmp_path / "spool").parent == tmp_path / "spool"


@pytest.mark.parametrize(
    ("variable", "what", "advice"),
    [("XDG_RUNTIME_DIR", "the run's state", "XDG_RUNTIME_DIR"), ("XDG_CACHE_HOME", "the index", "--spool-dir or")],
)
def test_a_folder_that_cannot_be_made_is_named(
    variable: str, what: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv(variable, str(file))
    with pytest.raises(SystemExit) as end:
        main(["run", "--upstream", "127.0.0.1:1", "--listen", "0", "--headless", "--no-record"])
    assert end.value.code == Exit.PERMISSION
    said = capsys.readouterr().err
    assert said.startswith(f"kproxy: no folder for {what} can be made: {file}/kproxy")
    assert f": Not a directory ({advice}" in said


def test_a_folder_of_the_environment_that_is_none_is_no_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(scratch, "runs_dir", lambda: private.folder(file / "runs"))
    with pytest.raises(SystemExit) as end:
        main(["ps"])
    assert (end.value.code, capsys.readouterr().err) == (Exit.PERMISSION, f"kproxy: {file}/runs: Not a directory\n")


@pytest.mark.parametrize("command", [["run", "--upstream", "x", "--headless"], ["demo"], ["ps"]], ids=" ".join)
def test_without_a_place_for_temporary_files(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc"])
    with pytest.raises(SystemExit) as end:
        main(command)
    assert end.value.code == Exit.PERMISSION
    assert capsys.readouterr().err == "kproxy: no directory for temporary files can be written to (TMPDIR names one)\n"
