"""No command overwrites a file that stands where it would write, unless --force is given."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from kproxy.cli import main as commands
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from kproxy.tui.output.commands import Exporter
from kproxy.tui.output.exporting import Choice, Export, Wanted
from tests.captures import traffic

CAPTURE = traffic.LIBRDKAFKA
OLD = b"somebody's work"
ADVICE = "exists already: name another file, or overwrite it with --force"

Command = Callable[[Path], list[str]]
EXPORTS = [
    *(("export", "--format", form) for form in ("jsonl", "json", "csv", "records", "pcapng")),
    ("export", "--format", "html", "--exchange", "3"),
    ("export", "--format", "jsonl", "--resume"),
    ("export", "--format", "jsonl", "--redact", "hosts"),
]
WRITING: dict[str, Command] = {
    **{" ".join(words): lambda out, words=words: [*words, str(CAPTURE), "-o", str(out)] for words in EXPORTS},  # type: ignore[misc]
    "merge": lambda out: ["merge", str(CAPTURE), "-o", str(out)],
    "ca --export": lambda out: ["ca", "--export", str(out)],
    "ca --truststore": lambda out: ["ca", "--truststore", str(out), "--password-env", "TRUST"],
}
"""Commands that write a file and end."""
LASTING: dict[str, Command] = {
    "run": lambda out: ["run", "--upstream", "localhost:1", "-w", str(out)],
    "sniff": lambda out: ["sniff", "lo", "-w", str(out)],
    "demo": lambda out: ["demo", "-w", str(out)],
    "spark report": lambda out: ["spark", "report", "tables", "--html", str(out)],
}
"""Commands that would go on, or start Java; they refuse before that."""
FOLDERS = frozenset({"parquet", "split", "tables", "spark"})
"""What writes folders of files whose names are kproxy's own."""
FILE_OPTIONS = frozenset({"-o", "--output", "-w", "--write", "--export", "--truststore", "--html"})


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("TRUST", "changeit")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments])


@pytest.mark.parametrize("name", WRITING)
def test_a_file_that_is_there_stays_unless_forced(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(OLD)
    refused = run(*WRITING[name](out))
    assert refused.exit_code == Exit.USAGE, refused.stderr
    assert f"{out}: {ADVICE}" in refused.stderr
    assert out.read_bytes() == OLD
    forced = run(*WRITING[name](out), "--force")
    assert forced.exit_code == Exit.OK, forced.stderr
    assert out.read_bytes() != OLD


@pytest.mark.parametrize("name", LASTING)
def test_what_would_go_on_refuses_at_once(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(OLD)
    refused = run(*LASTING[name](out))
    assert refused.exit_code == Exit.USAGE, refused.stderr
    assert f"{out}: {ADVICE}" in refused.stderr
    assert out.read_bytes() == OLD


def test_every_command_that_writes_a_file_is_tried_here_and_has_force() -> None:
    tried = {*WRITING, *LASTING}
    for name, command in _commands(main, ""):
        named = [param for param in command.params if not getattr(param, "is_flag", False)]
        writes = {option for param in named for option in param.opts} & FILE_OPTIONS
        if not writes:
            continue
        assert "--force" in {option for param in command.params for option in param.opts} or name in FOLDERS, name
        assert name in FOLDERS or any(one.startswith(name) for one in tried), name


def _commands(group: click.Command, name: str) -> list[tuple[str, click.Command]]:
    if not isinstance(group, click.Group):
        return [(name, group)]
    context = click.Context(group)
    found = []
    for one in group.list_commands(context):
        command = group.get_command(context, one)
        if command is not None:
            found += _commands(command, f"{name} {one}".strip())
    return found


@pytest.mark.parametrize("how", [("--size", "20k"), ("--time", "1s"), ("--connection",)])
def test_split_replaces_no_file_but_when_forced(how: tuple[str, ...], tmp_path: Path) -> None:
    command = ["split", str(CAPTURE), *how, "-o", str(tmp_path / "parts")]
    assert run(*command).exit_code == Exit.OK
    parts = sorted((tmp_path / "parts").iterdir())
    written = parts[0].read_bytes()
    parts[0].write_bytes(OLD)
    refused = run(*command)
    assert refused.exit_code == Exit.USAGE
    assert f"{parts[0]}: {ADVICE}" in refused.stderr
    assert parts[0].read_bytes() == OLD
    assert run(*command, "--force").exit_code == Exit.OK
    assert parts[0].read_bytes() == written
    assert sorted((tmp_path / "parts").iterdir()) == parts


def test_captures_of_two_releases_are_split_beside_each_other(tmp_path: Path) -> None:
    out = tmp_path / "parts"
    for name in ("kafka-3.1.pcap", "kafka-3.9.2.pcap", "kafka.pcapng.gz.pcap", ".pcap"):
        one = tmp_path / name
        one.write_bytes(CAPTURE.read_bytes())
        assert run("split", str(one), "--size", "1M", "-o", str(out)).exit_code == Exit.OK
    assert {path.name for path in out.iterdir()} == {
        "kafka-3.1-000001.pcapng",
        "kafka-3.9.2-000001.pcapng",
        "kafka.pcapng.gz-000001.pcapng",
        "pcap-000001.pcapng",
    }


def test_tables_leave_files_of_others_alone(tmp_path: Path) -> None:
    others = tmp_path / "tables" / "exchanges" / "capture_date=2020-01-01" / "capture_hour=00" / "mine.parquet"
    others.parent.mkdir(parents=True)
    others.write_bytes(OLD)
    (tmp_path / "tables" / "README").write_bytes(OLD)
    for _ in range(2):
        assert run("export", str(CAPTURE), "--format", "parquet", "-o", str(tmp_path / "tables")).exit_code == Exit.OK
    assert others.read_bytes() == OLD
    assert (tmp_path / "tables" / "README").read_bytes() == OLD


def test_resume_takes_no_part_file_that_it_did_not_begin(tmp_path: Path) -> None:
    command = ["export", str(CAPTURE), "-o", str(tmp_path / "out"), "--resume"]
    part = tmp_path / "out.part"
    part.write_bytes(OLD)
    refused = run(*command)
    assert refused.exit_code == Exit.USAGE
    assert f"{part}: {ADVICE}" in refused.stderr
    assert part.read_bytes() == OLD
    assert run(*command, "--force").exit_code == Exit.OK
    assert not part.exists()


def test_empty_files_pipes_and_devices_may_be_written(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    assert run("export", str(CAPTURE), "-o", str(empty)).exit_code == Exit.OK
    assert empty.stat().st_size
    assert run("export", str(CAPTURE), "-o", "/dev/null").exit_code == Exit.OK


def test_the_interface_writes_beside_part_files_of_others(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\nfor last; do [ "$before" = --output ] && echo new > "$last"; before=$last; done\n')
    program.chmod(0o755)
    target, part = tmp_path / "out.csv", tmp_path / "out.csv.part"
    part.write_bytes(OLD)
    wanted = Wanted("all", "csv", "secrets", target)
    done = exported(program, wanted)
    assert not done.failed, done.closing
    assert target.read_bytes() == b"new\n"
    assert part.read_bytes() == OLD
    target.write_bytes(OLD)
    refused = exported(program, wanted)
    assert refused.failed
    assert target.read_bytes() == OLD
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "out.csv.part", "program"]


def exported(program: Path, wanted: Wanted) -> Export:
    export = Export(Exporter((str(program),), (), ()), ["x.pcap"], Choice(1), wanted)
    while not export.poll():
        time.sleep(0.01)
    return export


def test_commands_are_all_walked() -> None:
    assert {"export", "merge", "split", "run", "demo", "ca"} <= {name for name, _ in _commands(main, "")}
    assert commands.main is main
