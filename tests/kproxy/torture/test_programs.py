"""How a client's program is run, judged and reported."""

from __future__ import annotations

import os
import stat
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from kproxy.cli.commands import torture
from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from kproxy.torture.canary import Written
from kproxy.torture.program import TAIL, Ended, run
from kproxy.torture.scenario import Scenario
from kproxy.torture.scorecard import junit, line, summary
from kproxy.torture.trial import RECORDS, Bench, Result, Verdict
from tests.support.patience import SECONDS
from tests.support.relay import eventually

ALL = [str(number) for number in range(RECORDS)]


def python(text: str, seconds: float = SECONDS) -> Ended:
    return run([sys.executable, "-c", text], {"KPROXY_ROLE": "produce"}, seconds, lambda: None)


def test_the_exit_code_and_the_end_of_the_output_are_kept() -> None:
    long = "import os, sys; print('x' * 300_000, flush=True)"
    ended = python(f"{long}; print(os.environ['KPROXY_ROLE'], file=sys.stderr); sys.exit(3)")
    assert ended.code == 3
    assert len(ended.output) == TAIL
    assert ended.output.endswith("produce\n")


def test_a_signal_is_a_negative_code() -> None:
    assert python("import os; os.kill(os.getpid(), 9)").code == -9


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    child = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    looks = []

    def look() -> None:
        looks.append(pid.exists() and pid.read_text() != "")

    ended = run([sys.executable, "-c", program], {}, 3.0, look)
    assert ended.code is None
    assert looks[-1]
    eventually(lambda: not running(int(pid.read_text())), "the child is gone", SECONDS)


def running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def scenario(role: str = "produce", *, may_fail: bool = False) -> Scenario:
    return Scenario("one", "", "", "", role, may_fail, False, (), Path(os.devnull))


@pytest.mark.parametrize(
    ("code", "values", "hits", "may_fail", "verdict"),
    [
        (0, {0: ALL}, 1, False, Verdict.PASSED),
        (0, {0: ALL[::2], 1: ALL[1::2]}, 1, False, Verdict.PASSED),
        (0, {0: ALL}, 0, False, Verdict.NOT_MET),
        (0, {0: ALL[1:]}, 1, False, Verdict.LOST),
        (0, {0: ALL[1:]}, 1, True, Verdict.LOST),
        (0, {0: [*ALL, "3"]}, 1, False, Verdict.DOUBLED),
        (1, {0: [*ALL, "3"]}, 1, True, Verdict.DOUBLED),
        (1, {0: ALL[1:]}, 1, True, Verdict.TOLD),
        (1, {0: ALL}, 1, False, Verdict.FAILED),
        (0, {0: [*ALL, "aborted"]}, 1, False, Verdict.FAILED),
        (-11, {0: ALL}, 1, True, Verdict.CRASHED),
        (None, {0: ALL}, 1, True, Verdict.HUNG),
    ],
)
def test_a_verdict(code: int | None, values: dict[int, list[str]], hits: int, may_fail: bool, verdict: Verdict) -> None:
    result = Result("one", Verdict.PASSED, hits, code)
    Bench._judge(result, scenario(may_fail=may_fail), Ended(code, 1.0, ""), Written(values), None)
    assert result.verdict is verdict


def test_a_consumer_may_read_again_but_not_skip() -> None:
    for seen, verdict in (([*ALL, "3"], Verdict.PASSED), (ALL[:-1], Verdict.LOST)):
        result = Result("one", Verdict.PASSED, 1, 0)
        Bench._judge(result, scenario("consume"), Ended(0, 1.0, ""), Written({0: ALL}), seen)
        assert result.verdict is verdict


def test_a_topic_that_cannot_be_read_is_no_pass() -> None:
    result = Result("one", Verdict.PASSED, 1, 0)
    Bench._judge(result, scenario(), Ended(0, 1.0, ""), None, None)
    assert result.verdict is Verdict.FAILED


def test_records_out_of_order_are_noted() -> None:
    result = Result("one", Verdict.PASSED, 1, 0)
    Bench._judge(result, scenario(), Ended(0, 1.0, ""), Written({0: [*ALL[2:], *ALL[:2]]}), None)
    assert result.notes == ["records are out of order in 1 places"]


def test_the_reports() -> None:
    results = [
        Result("a", Verdict.PASSED, 1, 0, 1.0, 0.5),
        Result("b<&", Verdict.LOST, 1, 0, 1.0, 0.5, ["1 of 40 records are missing"], output="bad \x00\x1b[31m <out>"),
        Result("c", Verdict.NOT_MET),
        Result("d", Verdict.TOLD, 1, 1),
    ]
    suite = ET.fromstring(junit(results, ["client", '"<x>"']))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "1")
    assert suite.get("name") == 'kproxy torture client "<x>"'
    assert [[one.tag for one in case] for case in suite] == [[], ["failure", "system-out"], ["skipped"], []]
    assert suite[1].get("name") == "b<&"
    assert (suite[1][1].text or "").endswith("<out>")
    assert "0.5 s after the fault" in line(results[0])
    assert summary(results) == "2 of 4 scenarios went as they should"


def test_reports_are_private_and_those_that_cannot_be_written_are_refused_before_the_trials(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        paths = tmp_path / "junit.xml", tmp_path / "results.jsonl"
        torture._results([Result("a", Verdict.LOST, output="\x9b31m")], ("client",), *paths)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o600] * 2
    assert "\x9b" not in paths[1].read_text()
    mark = tmp_path / "mark"
    for option in ("--junit", "--json"):
        done = CliRunner().invoke(main, ["torture", option, f"{tmp_path}/no/file", "--", "touch", str(mark)])
        assert done.exit_code == Exit.USAGE
        assert f"cannot write {tmp_path}/no/file: No such file or directory" in done.stderr
    assert not mark.exists()
