"""The command `kproxy export`: formats, columns, selections, outputs and exit codes."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kproxy.captures.export import rows
from kproxy.captures.export.rows import COLUMNS, quoted
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import files, traffic

CAPTURE = str(traffic.LIBRDKAFKA)
WITHOUT_BODIES = "time,exchange,connection,client,broker,api,api_key,version,correlation_id,client_id,latency_ms"


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["export", *arguments], input=stdin)


def kproxy(*arguments: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a separate process."""
    code = "import sys; from kproxy.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "export", *arguments]
    return subprocess.run(command, capture_output=True, timeout=120, check=False, **more)


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    result = run(CAPTURE)
    assert result.exit_code == Exit.OK
    assert result.stderr == ""
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_json_lines_end_with_health(lines: list[dict[str, Any]]) -> None:
    assert [line["schema"] for line in lines[-2:]] == ["kproxy.exchange/1", "kproxy.health/1"]
    assert list(lines[0])[:10] == [
        "schema", "exchange", "connection", "client", "broker", "api_key", "api", "api_version", "correlation_id",
        "client_id",
    ]  # fmt: skip


def test_json_is_one_array_of_the_same_objects(lines: list[dict[str, Any]]) -> None:
    assert json.loads(run(CAPTURE, "--format", "json").stdout) == lines
    assert json.loads(run(CAPTURE, "--format", "json", "--port", "1").stdout)[0]["schema"] == "kproxy.health/1"


def test_csv_has_all_columns_unless_chosen(lines: list[dict[str, Any]]) -> None:
    found = list(csv.DictReader(run(CAPTURE, "--format", "csv").stdout.splitlines()))
    exchanges = traffic.exchanges(lines)
    assert tuple(found[0]) == COLUMNS
    assert len(found) == len(exchanges)
    for row, line in zip(found, exchanges, strict=True):
        assert row["time"] == line["request"]["timestamp"]
        assert row["api"] == line["api"]
        assert row["status"] == line["status"]
        assert row["error_codes"].split() == line["error_codes"]
        assert row["client_id"] == (line["client_id"] or "")
        assert row["latency_ms"] == ("" if line["latency_ms"] is None else str(line["latency_ms"]))
        assert row["response_size"] == ("" if line["response"] is None else str(line["response"]["size"]))


def test_columns_that_need_no_body_decode_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a body was decoded")

    monkeypatch.setattr(rows, "exchange_json", refuse)
    result = run(CAPTURE, "--format", "csv", "--columns", WITHOUT_BODIES)
    assert result.exit_code == Exit.OK
    assert result.stdout.splitlines()[0] == WITHOUT_BODIES
    assert len(result.stdout.splitlines()) == 177


def test_cells_with_commas_and_quotes_are_quoted() -> None:
    texts = ["plain", "a,b", 'say "x"', "two\nlines", "", None]
    row = ",".join(quoted(text) for text in texts)
    assert next(csv.reader([row.replace("\n", "\\n")])) == ["plain", "a,b", 'say "x"', "two\\nlines", "", ""]


def test_output_goes_to_a_file(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    out = tmp_path / "out.jsonl"
    result = run(CAPTURE, "-o", str(out))
    assert (result.exit_code, result.stdout) == (Exit.OK, "")
    assert [json.loads(line) for line in out.read_text().splitlines()] == lines


def test_the_capture_is_never_overwritten(tmp_path: Path) -> None:
    data = traffic.LIBRDKAFKA.read_bytes()
    path = files.write(tmp_path / "a.pcap", data)
    (tmp_path / "link.pcap").symlink_to(path)
    for output in (path, tmp_path / "link.pcap"):
        result = run(str(path), "-o", str(output))
        assert result.exit_code == Exit.USAGE
        assert "this is the input capture" in result.stderr
    assert path.read_bytes() == data


def test_standard_input(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    with traffic.LIBRDKAFKA.open("rb") as file:
        result = kproxy("-", stdin=file, env=environment)
    assert (result.returncode, result.stderr) == (Exit.OK, b"")
    assert [json.loads(line) for line in result.stdout.splitlines()] == lines
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_reader_that_goes_away_ends_it_silently(tmp_path: Path) -> None:
    taken = traffic.packets(traffic.LIBRDKAFKA)
    path = files.write(tmp_path / "long.pcap", files.pcap(taken * 5))
    code = "import sys; from kproxy.cli.main import main; sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", code, "export", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(timeout=60) == Exit.PIPE
    assert errors == b""


def test_selections(lines: list[dict[str, Any]]) -> None:
    exchanges = traffic.exchanges(lines)

    def chosen(*arguments: str) -> list[dict[str, Any]]:
        result = run(CAPTURE, *arguments)
        assert result.exit_code == Exit.OK, result.stderr
        found = [json.loads(line) for line in result.stdout.splitlines()]
        assert found[-1]["schema"] == "kproxy.health/1"
        return traffic.exchanges(found)

    assert chosen("-Y", "api == Metadata") == [line for line in exchanges if line["api"] == "Metadata"]
    assert chosen("-c", "3") == exchanges[:3]
    assert chosen("-c", "0") == []
    middle = exchanges[80]["request"]["timestamp"]
    assert chosen("--since", middle) == [line for line in exchanges if line["request"]["timestamp"] >= middle]
    assert chosen("--until", middle) == [line for line in exchanges if line["request"]["timestamp"] < middle]
    assert chosen("--port", "19092") == exchanges
    assert chosen("--port", "1-19091") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "csv", "--columns", "time,aip"], "no column 'aip': did you mean api?"),
        (["--columns", "time"], "--columns works with --format csv only"),
        (["--format", "parquet"], "parquet"),
        (["--port", "9092-"], "port"),
        (["--release", "0.1.2.3.4"], "0.1.2.3.4"),
        (["-Y", "api =="], "filter"),
        (["-o", "no/such/directory/out"], "No such file"),
        ([], "Missing argument"),
    ],
)
def test_usage(arguments: list[str], message: str) -> None:
    result = run(*arguments, *([CAPTURE] if arguments else []))
    assert result.exit_code == Exit.USAGE
    assert message.lower() in result.stderr.lower() or message == "filter"
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing", None, "No such file or directory"),
        ("empty", b"", "is empty"),
        ("text", b"Dear capture,\n", "neither pcap nor pcapng"),
        ("header", files.pcap([])[:13], "ends inside its pcap header"),
        ("packed.gz", b"\x1f\x8b\x08\x00\x00", "the gzip data is"),
        ("directory", "directory", "without recording segments"),
    ],
)
def test_unreadable_input_is_one_line_and_exit_3(
    tmp_path: Path, name: str, content: bytes | str | None, message: str
) -> None:
    path = tmp_path / name
    if content == "directory":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    result = run(str(path))
    assert result.exit_code == Exit.INPUT
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr
    assert name in result.stderr
    assert traffic.exchanges([json.loads(line) for line in result.stdout.splitlines()]) == []


def test_a_cut_capture_prints_what_comes_before(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    data = traffic.LIBRDKAFKA.read_bytes()
    path = files.write(tmp_path / "cut.pcap", data[:-5])
    result = run(str(path))
    assert result.exit_code == Exit.INPUT
    assert "ends inside a packet" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert traffic.exchanges(found)[:170] == traffic.exchanges(lines)[:170]
    assert found[-1]["schema"] == "kproxy.health/1"
