"""Exports that are interrupted and resumed write the same bytes as uninterrupted ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.captures.export import parallel
from kproxy.captures.export.partial import Partial, PartialError
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import traffic
from tests.support.multiply import multiply
from tests.support.thinned import thinned

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # other tests leave threads behind

Arguments = list[str | Path]

ENDED = """
import os, signal, sys
from kproxy.captures import chunks
from kproxy.captures.export import parallel, partial
from kproxy.cli.main import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
chunks.CHUNK_ITEMS, parallel.STAGE = 20, 2
when, whom, how, after = int(sys.argv[1]), sys.argv[2], signal.Signals[sys.argv[3]], sys.argv[4] == "after"
parent = os.getpid()

class Ended(partial.Partial):
    def reached(self, stage):
        now = stage.items + (self.stage.items if self.stage else 0) >= when
        if after or not now:
            super().reached(stage)
        if now:
            os.killpg(0, how) if whom == "all" else os.kill(parent, how)

partial.Partial = Ended
main(sys.argv[5:])
"""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.captures.chunks.CHUNK_ITEMS", 20)
    monkeypatch.setattr(parallel, "STAGE", 2)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Two copies of a capture with different addresses, one after the other, so that exchanges fill several batches."""
    path = tmp_path / "capture"
    multiply(traffic.LIBRDKAFKA, 2, path)
    return path


def export(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


def ended(
    when: int, *arguments: str | Path, whom: str = "all", how: str = "SIGKILL", after: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run an export that is killed when `when` items are written: all its processes, or only the one that reads."""
    last = "after" if after else "before"
    command = [sys.executable, "-c", ENDED, str(when), whom, how, last, "export", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, start_new_session=True, check=False, timeout=120)


def reached(out: Path) -> int:
    items: int = json.loads(out.with_name(out.name + ".part.json").read_bytes())["stage"]["items"]
    return items


@pytest.mark.parametrize("jobs", thinned(["4", "1"], 1))
@pytest.mark.parametrize(
    "options",
    thinned(
        [
            ["--format", "jsonl"],
            ["-Y", "error or latency > 1ms", "--format", "csv"],
            ["--format", "json"],
            ["--format", "csv"],
            ["--format", "records"],
            ["-Y", "topic == shop-orders", "-c", "120"],
        ],
        2,
    ),
)
def test_what_was_killed_is_gone_on_with(jobs: str, options: list[str], capture: Path, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    alone = export(capture, "-o", whole, "--jobs", jobs, *options)
    command: Arguments = [capture, "-o", out, "--jobs", jobs, "--resume", *options]
    for when in (40, 130, 290):
        assert ended(when, *command).returncode == -signal.SIGKILL
        assert when <= reached(out) < when + 160
        assert not out.exists()
    result = export(*command)
    assert (result.exit_code, alone.exit_code) == (Exit.OK, Exit.OK)
    assert out.read_bytes() == whole.read_bytes()
    said = [line for line in result.stderr.splitlines() if "continuing after" not in line]
    assert said == alone.stderr.splitlines()
    assert not [*tmp_path.glob("out.*")]


@pytest.mark.parametrize("jobs", ["1", "4"])
def test_what_was_written_after_the_journal_is_made_again(jobs: str, capture: Path, tmp_path: Path) -> None:
    export(capture, "-o", tmp_path / "whole")
    out = tmp_path / "out"
    command: Arguments = [capture, "-o", out, "--jobs", jobs, "--resume"]
    assert ended(200, *command, after=False).returncode == -signal.SIGKILL
    assert reached(out) < 200
    with (tmp_path / "out.part").open("ab") as part:
        part.write(b"half a line")
    assert export(*command).exit_code == Exit.OK
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


def test_one_that_is_killed_before_it_noted_anything_begins_again(capture: Path, tmp_path: Path) -> None:
    export(capture, "-o", tmp_path / "whole")
    out = tmp_path / "out"
    assert ended(1, capture, "-o", out, "--resume", after=False).returncode == -signal.SIGKILL
    assert export(capture, "-o", out, "--resume").exit_code == Exit.OK
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


def test_processes_without_the_one_that_reads_are_waited_for(capture: Path, tmp_path: Path) -> None:
    export(capture, "-o", tmp_path / "whole")
    out = tmp_path / "out"
    command: Arguments = [capture, "-o", out, "--jobs", "4", "--resume"]
    assert ended(100, *command, whom="parent").returncode == -signal.SIGKILL
    assert export(*command).exit_code == Exit.OK
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("jobs", ["1", "4"])
def test_an_interrupt_says_how_to_go_on(jobs: str, capture: Path, tmp_path: Path) -> None:
    export(capture, "-o", tmp_path / "whole")
    out = tmp_path / "out"
    command: Arguments = [capture, "-o", out, "--jobs", jobs, "--resume"]
    process = ended(100, *command, how="SIGINT")
    assert process.returncode == Exit.INTERRUPTED
    assert process.stderr == "kproxy: run the same command again to continue from here\n"
    result = export(*command)
    assert f"continuing after {reached_of(result)}" in result.stderr
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


def reached_of(result: Result) -> str:
    return result.stderr.partition("continuing after ")[2].partition(" ")[0]


def test_jobs_may_differ(capture: Path, tmp_path: Path) -> None:
    export(capture, "-o", tmp_path / "whole")
    out = tmp_path / "out"
    ended(100, capture, "-o", out, "--jobs", "3", "--resume")
    assert export(capture, "-o", out, "--jobs", "1", "--resume").exit_code == Exit.OK
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_capture_that_is_cut_is_written_as_far_as_it_goes(capture: Path, tmp_path: Path) -> None:
    capture.write_bytes(capture.read_bytes()[:-10])
    whole, out = export(capture, "-o", tmp_path / "whole"), tmp_path / "out"
    assert whole.exit_code == Exit.INPUT
    ended(100, capture, "-o", out, "--resume")
    assert export(capture, "-o", out, "--resume").exit_code == Exit.INPUT
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


def refused(*arguments: str | Path) -> str:
    result = export(*arguments)
    assert result.exit_code == Exit.USAGE, result.stderr
    (line,) = result.stderr.splitlines()
    return line


def test_what_was_begun_otherwise_is_left_alone(capture: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command: Arguments = [capture, "-o", out, "--resume"]
    ended(100, *command)
    part = (tmp_path / "out.part").read_bytes()
    assert "started with different --filter; remove it" in refused(*command, "-Y", "api == Fetch")
    assert "started with different --format, --show-secrets; remove it" in refused(
        *command, "--format", "json", "--show-secrets"
    )
    assert (tmp_path / "out.part").read_bytes() == part
    (tmp_path / "out.part").write_bytes(part[:100])
    assert "was changed since it was begun" in refused(*command)
    (tmp_path / "out.part").write_bytes(part[:100] + b"?" + part[101:])
    assert "was changed since it was begun" in refused(*command)
    status = capture.stat()
    os.utime(capture, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert "started with different captures; remove it" in refused(*command)
    (tmp_path / "out.part.json").write_bytes(b'{"size":')
    assert "not a journal" in refused(*command)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "-o FILE"),
        (["-o", "-"], "-o FILE"),
        (["-o", "out", "--format", "pcapng"], "which are written line by line"),
        (["-o", "out", "--format", "html", "-c", "1"], "which are written line by line"),
        (["-o", "out", "--format", "parquet"], "which are written line by line"),
        (["-o", "out", "--redact", "hosts"], "exclude each other"),
        (["-o", "out", "--registry", "http://registry"], "exclude each other"),
        (["-o", "/dev/null"], "not a regular file"),
    ],
)
def test_what_cannot_be_resumed(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in refused(traffic.LIBRDKAFKA, "--resume", *arguments)
    assert not [*tmp_path.iterdir()]


def test_a_capture_that_is_not_there(tmp_path: Path) -> None:
    result = export(tmp_path / "none", "--resume", "-o", tmp_path / "out")
    assert result.exit_code == Exit.INPUT
    assert not [*tmp_path.iterdir()]


def test_a_pipe_cannot_be_read_again(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["export", "-", "--resume", "-o", str(tmp_path / "out")], input=b"")
    assert result.exit_code == Exit.USAGE
    assert "a pipe can be read only once" in result.stderr
    os.mkfifo(tmp_path / "pipe")
    assert "a pipe can be read only once" in refused(tmp_path / "pipe", "--resume", "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_do_not_write_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.captures.export.partial.PATIENCE", 0.1)
    with Partial(tmp_path / "out", {}) as one:
        with pytest.raises(PartialError, match="another process"):
            Partial(tmp_path / "out", {})
        one.out.write(b"mine")
    assert (tmp_path / "out").read_bytes() == b"mine"


def test_who_removes_what_was_begun_begins_again(capture: Path, tmp_path: Path) -> None:
    out, part = tmp_path / "out", tmp_path / "out.part"
    assert export(capture, "-o", out).exit_code == 0
    whole = out.read_bytes()
    out.unlink()
    ended(100, capture, "-o", out, "--resume", "-Y", "api == Fetch")
    assert export(capture, "--resume", "-o", out).exit_code == Exit.USAGE
    part.unlink()
    again = export(capture, "--resume", "-o", out)
    assert again.exit_code == 0, again.output
    assert out.read_bytes() == whole
    assert sorted(path.name for path in tmp_path.glob("out*")) == ["out"]


def test_a_key_log_from_a_pipe_cannot_be_read_again(capture: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused = export(capture, "--keylog", tmp_path / "pipe", "--resume", "-o", tmp_path / "out")
    assert refused.exit_code == Exit.USAGE
    assert "a pipe can be read only once" in refused.output
