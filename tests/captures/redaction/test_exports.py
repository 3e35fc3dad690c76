"""No form of output contains what redaction was to remove."""

from __future__ import annotations

import base64
import ipaddress
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from kproxy.captures.reader import read
from kproxy.captures.redaction.exchanges import Redaction
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.view import View
from tests.captures import traffic
from tests.support.thinned import thinned

GOLDEN = traffic.DATA / "golden" / "golden-4.4.0.pcap"
FORMS = ("jsonl", "csv", "records", "parquet", "pcapng", "json", "html")
QUICK = 3
"""Captures that unit tests try."""
EACH = thinned(
    [
        *((traffic.LIBRDKAFKA, form) for form in FORMS),
        *((capture, form) for capture in (traffic.KAFKA_1_1, traffic.KAFKA_0_8) for form in ("jsonl", "pcapng")),
    ],
    QUICK,
)
SHORTEST = 8
"""Shortest secret in bytes that does not occur elsewhere by chance."""


def export(capture: Path, form: str, out: Path, *arguments: str) -> str:
    """Write an export; its standard error."""
    more = ["-c", "100000"] if form == "html" else []
    result = CliRunner().invoke(main, ["export", str(capture), "--format", form, "-o", str(out), *more, *arguments])
    assert result.exit_code == Exit.OK, result.stderr
    return result.stderr


def output(out: Path, form: str) -> bytes:
    """The bytes that were written; for tables the text of their cells."""
    if form != "parquet":
        return out.read_bytes()
    tables = [ds.dataset(folder, format="parquet").to_table().to_pylist() for folder in sorted(out.glob("[!.]*"))]
    return repr(tables).encode()


def values(line: Any, closed: Any) -> Iterator[Any]:
    """The values in `line` that `closed` withholds."""
    if isinstance(closed, dict) and closed.get("redacted") is True:
        yield line
    elif isinstance(closed, dict):
        for name, value in closed.items():
            yield from values(line.get(name), value)
    elif isinstance(closed, list):
        for one, other in zip(line, closed, strict=True):
            yield from values(one, other)


def secrets_of(capture: Path) -> set[bytes]:
    """The secrets of a capture, as bytes."""
    reader = read(capture)
    found: set[bytes] = set()
    for batch in reader.batches():
        for item in batch:
            if isinstance(item, Exchange):
                shown, closed = (
                    json.loads(json.dumps(exchange_json(item, reader.source, reader.definitions, view=view)))
                    for view in (View(show_secrets=True, inside=False), View(inside=False))
                )
                for value in values(shown, closed):
                    found |= _spellings(value)
    return {secret for secret in found if len(secret) >= SHORTEST}


def _spellings(value: Any) -> set[bytes]:
    if isinstance(value, dict):
        value = value.get("base64", "")
    if not isinstance(value, str):
        return set()
    try:
        return {value.encode(), base64.b64decode(value, validate=True)}
    except ValueError:
        return {value.encode()}


@pytest.fixture(scope="module")
def secrets() -> set[bytes]:
    found = secrets_of(GOLDEN)
    assert len(found) > 100
    return found


@pytest.mark.parametrize("form", thinned(FORMS, QUICK))
def test_no_secret_is_left(form: str, secrets: set[bytes], tmp_path: Path) -> None:
    export(GOLDEN, form, tmp_path / "out", "--redact", "secrets")
    text = output(tmp_path / "out", form)
    assert not {secret for secret in secrets if secret in text}


def test_a_slice_withholds_secrets_unless_told(secrets: set[bytes], tmp_path: Path) -> None:
    export(GOLDEN, "pcapng", tmp_path / "a.pcapng")
    export(GOLDEN, "pcapng", tmp_path / "b.pcapng", "--show-secrets")
    held = {name: (tmp_path / name).read_bytes() for name in ("a.pcapng", "b.pcapng")}
    assert not {secret for secret in secrets if secret in held["a.pcapng"]}
    assert len({secret for secret in secrets if secret in held["b.pcapng"]}) > 50


@pytest.mark.parametrize(("capture", "form"), EACH)
def test_no_host_is_left(form: str, capture: Path, tmp_path: Path) -> None:
    hosts = {"127.0.0.1", "localhost"}
    plain, hidden = tmp_path / "plain", tmp_path / "hidden"
    export(capture, form, plain)
    said = export(capture, form, hidden, "--redact", "hosts")
    assert "hosts" in said
    packed = {ipaddress.ip_address(host).packed for host in hosts if host[0].isdigit()} if form == "pcapng" else set()
    searched = {host.encode() for host in hosts} | packed
    searched |= {base64.b64encode(b"/127.0.0.1").rstrip(b"=")}
    if form != "records":
        assert b"127.0.0.1" in output(plain, form) or form == "pcapng"
    text = output(hidden, form)
    assert not {host for host in searched if host in text}


@pytest.mark.system
def test_golden_hosts_are_gone_from_every_field(tmp_path: Path) -> None:
    reader = read(GOLDEN)
    redaction = Redaction(reader.source, reader.definitions, {"hosts"})
    for batch in reader.batches():
        redaction.learn(batch)
    names = {name for name in redaction.hosts.names if len(name) >= 8}
    assert len(names) > 100
    export(GOLDEN, "jsonl", tmp_path / "out", "--redact", "hosts")
    text = (tmp_path / "out").read_text()
    assert not {name for name in names if name in text}


def payloads_of(capture: Path) -> set[str]:
    result = CliRunner().invoke(main, ["export", str(capture), "--format", "records"])
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    texts = {line[part] for line in lines for part in ("key", "value") if isinstance(line[part], str)}
    return {text for text in texts if len(text) >= SHORTEST}


@pytest.mark.parametrize(("capture", "form"), EACH)
def test_no_payload_is_left(form: str, capture: Path, tmp_path: Path) -> None:
    payloads = payloads_of(capture)
    assert len(payloads) > 20
    more = ["--tables", "exchanges,records"] if form == "parquet" else []
    export(capture, form, tmp_path / "out", "--redact", "payloads", *more)
    text = output(tmp_path / "out", form).decode("utf-8", "replace")
    assert not {payload for payload in payloads if payload in text}


@pytest.mark.parametrize("capture", [traffic.LIBRDKAFKA, traffic.KAFKA_1_1, traffic.KAFKA_0_8], ids=lambda p: p.stem)
def test_what_is_left_reads_as_before(capture: Path, tmp_path: Path) -> None:
    export(capture, "pcapng", tmp_path / "out.pcapng", "--redact", "payloads", "--redact", "hosts")
    before, after = (
        sorted(traffic.exchanges(traffic.exported(path)), key=lambda line: line["exchange"])
        for path in (capture, tmp_path / "out.pcapng")
    )
    assert [shape(line) for line in before] == [shape(line) for line in after]
    assert all(batch["crcValid"] for line in after for batch in batches(line))
    assert len([batch for line in after for batch in batches(line)]) > 10


def shape(line: dict[str, Any]) -> dict[str, Any]:
    sizes = {side: line[side] and line[side]["size"] for side in ("request", "response")}
    names = ("exchange", "api", "api_version", "correlation_id", "status", "latency_ms", "error_codes")
    return {**sizes, "client_id": len(line["client_id"] or ""), **{name: line[name] for name in names}}


def batches(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "crcValid" in value:
            yield value
        for one in value.values():
            yield from batches(one)
    elif isinstance(value, list):
        for one in value:
            yield from batches(one)


def test_it_says_what_it_took_out(tmp_path: Path) -> None:
    said = export(traffic.LIBRDKAFKA, "pcapng", tmp_path / "out", "--redact", "payloads", "--redact", "hosts")
    assert "redacted: 0 secrets, " in said
    assert ", 1 hosts (" in said
    held = (tmp_path / "out").read_bytes()
    assert b"slice of a capture: 176 exchanges" in held
    assert b"hosts redacted" in held


def test_redacting_secrets_and_showing_them_exclude_each_other() -> None:
    arguments = ["export", str(traffic.LIBRDKAFKA), "--redact", "secrets", "--show-secrets"]
    assert CliRunner().invoke(main, arguments).exit_code == Exit.USAGE
