"""The pytest plugin, run by pytest's own `pytester` against librdkafka's mock cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).parents[2]
MODULE = "kproxy.testing.plugin"
METADATA = 3
CLIENT = """
import pytest
from confluent_kafka import Producer

def ask(kproxy):
    return Producer({"bootstrap.servers": kproxy.bootstrap_servers, "log_level": 0}).list_topics(timeout=10)
"""
FINDS = '"api == Metadata"'
SLOW = '"slow: api == Metadata => delay 1ms"'
NEVER = '"never: api == Heartbeat => delay 1ms"'


class Inner:
    """Runs pytest on a test file that asks the cluster for metadata with `ask(kproxy)`."""

    def __init__(self, pytester: pytest.Pytester, cluster: str) -> None:
        self.pytester = pytester
        self._cluster = cluster

    def run(self, source: str, *arguments: str) -> pytest.RunResult:
        self.pytester.makepyfile(CLIENT + source)
        return self.pytester.runpytest_inprocess(
            "-p", MODULE, "-p", "no:asyncio", "-p", "no:cacheprovider", "--strict-markers", "-W", "error",
            f"--kproxy-upstream={self._cluster}", *arguments,
        )  # fmt: skip


@pytest.fixture
def inner(pytester: pytest.Pytester, kproxy_cluster: str) -> Inner:
    return Inner(pytester, kproxy_cluster)


def test_a_rule_fires_and_the_exchanges_are_decoded(inner: Inner) -> None:
    result = inner.run(f"""
def test_it(kproxy):
    slow = kproxy.on("Metadata").nth(1).delay("1ms")
    assert slow.hits == 0
    ask(kproxy)
    assert slow.wait(5).hits == 1
    (first, *_) = kproxy.exchanges({FINDS})
    assert first["response"]["body"]["brokers"]
    assert all(one["api"] == "Metadata" for one in kproxy.wait_for({FINDS}))
    assert not kproxy.exchanges("api == Fetch")
    with pytest.raises(AssertionError, match="0 exchanges in 0.1 s, not 1: api == Fetch"):
        kproxy.wait_for("api == Fetch", timeout=0.1)
    kproxy.assert_clean()

def test_it_sees_nothing_of_the_test_before(kproxy):
    assert not kproxy.exchanges({FINDS})
    assert not kproxy._session.proxy.rules()
""")
    result.assert_outcomes(passed=2)


def test_a_trigger_may_follow_the_action(inner: Inner) -> None:
    inner.run("""
def test_it(kproxy):
    second = kproxy.on("Metadata").delay("1ms").nth(2)
    assert second.text == "api == Metadata => delay 1ms, nth 2"
    ask(kproxy)
    ask(kproxy)
    assert second.hits == 1
""").assert_outcomes(passed=1)


def test_a_held_answer_waits_for_its_release(inner: Inner) -> None:
    inner.run("""
import threading

def test_it(kproxy):
    barrier = kproxy.on("Metadata").first().hold()
    asking = threading.Thread(target=ask, args=(kproxy,))
    asking.start()
    barrier.wait()
    assert kproxy.wait_for("api == Metadata")
    assert barrier.held == 1
    assert asking.is_alive()
    assert barrier.release() == 1
    asking.join(10)
    assert not asking.is_alive()
""").assert_outcomes(passed=1)


def test_a_rule_that_never_fired_fails_the_test(inner: Inner) -> None:
    result = inner.run(f"""
def test_never(kproxy):
    kproxy.fault({NEVER})

def test_optional(kproxy):
    kproxy.fault({NEVER}).optional()

@pytest.mark.kproxy({SLOW}, {NEVER})
def test_marked_and_silent(kproxy):
    ask(kproxy)

@pytest.mark.kproxy({NEVER}, optional=True)
@pytest.mark.kproxy({SLOW})
def test_marked(kproxy):
    ask(kproxy)

@pytest.mark.kproxy({NEVER})
def test_marked_without_the_fixture():
    pass

def test_removed(kproxy):
    slow = kproxy.fault({SLOW})
    ask(kproxy)
    slow.remove()
    assert slow.hits > 0
""")
    result.assert_outcomes(passed=6, errors=3)
    result.stdout.fnmatch_lines(
        ["*ERROR at teardown of test_never*", "rules that never fired*", "  never: api == Heartbeat => delay 1ms"]
    )
    assert "slow: api == Metadata" not in result.stdout.str()


def test_a_wrong_rule_says_where_and_what_was_meant(inner: Inner) -> None:
    result = inner.run("""
def test_text(kproxy):
    kproxy.fault("api == Produce => dorp response")

def test_built(kproxy):
    kproxy.on("Produce").error("NOT_LEADER_OR_FOLOWER", applied=False)

def test_not_said(kproxy):
    kproxy.on("Produce").error("NOT_LEADER_OR_FOLLOWER")

def test_name_taken(kproxy):
    kproxy.fault("a: api == Fetch => delay 1ms").optional()
    kproxy.fault("a: api == Produce => delay 1ms")

def test_filter(kproxy):
    kproxy.exchanges("api == Fetsh")
""")
    result.assert_outcomes(failed=5)
    result.stdout.fnmatch_lines(
        [
            "*RuleError: *did you mean drop?*", "*api == Produce => dorp response", "*^^^^*",
            "*RuleError: *did you mean NOT_LEADER_OR_FOLLOWER?*", "*^^^^^^^^^^^^^^^^^^^^^*",
            "*RuleError: say whether the broker does it*",
            "*ValueError: a rule named a exists already*",
            "*did you mean Fetch?*",
        ]
    )  # fmt: skip


def test_a_failing_test_keeps_its_capture_and_names_it(inner: Inner, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    result = inner.run(
        f"""
def test_before(kproxy):
    ask(kproxy)

@pytest.mark.parametrize("one", ["a/b"])
def test_it(kproxy, one):
    kproxy.fault({SLOW})
    ask(kproxy)
    pytest.fail("that is wrong")

def test_never(kproxy):
    ask(kproxy)
    kproxy.fault({NEVER})

def test_skipped(kproxy):
    pytest.skip("no reason")
""",
        f"--kproxy-keep={kept}",
    )
    result.assert_outcomes(passed=2, failed=1, errors=1, skipped=1)
    captures = sorted(kept.glob("*.pcapng"))
    assert [capture.name.partition(".py_")[2] for capture in captures] == ["test_it_a_b.pcapng", "test_never.pcapng"]
    result.stdout.fnmatch_lines(
        ["*- Captured kproxy call -*", f"capture: {captures[0]}*", "findings: *.findings.jsonl"]
    )
    result.stdout.fnmatch_lines(["*- Captured kproxy teardown -*", f"capture: {captures[1]}*"])
    for capture in captures:
        reader = read(capture)
        exchanges = [item for item in reader if isinstance(item, Exchange)]
        reader.close()
        assert any(one.api_key == METADATA for one in exchanges)
        assert all(one.connection.opened for one in exchanges)  # those of the test before began before this capture
        lines = capture.with_name(capture.stem + ".findings.jsonl").read_text().splitlines()
        assert all(json.loads(line)["schema"] == "kproxy.finding/1" for line in lines)
    assert b"slow: delay 1ms" in captures[0].read_bytes()


def test_workers_of_xdist_have_proxies_of_their_own(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(
        CLIENT
        + """
import os, time
from pathlib import Path

@pytest.mark.parametrize("n", range(4))
def test_it(kproxy, n, worker_id):
    slow = kproxy.on("Metadata").delay("1ms")
    Path(os.environ["NOTES"], f"{worker_id}-{kproxy.bootstrap_servers}").touch()
    ask(kproxy)
    time.sleep(0.3)
    assert slow.hits == len(kproxy.exchanges("api == Metadata"))
"""
    )
    notes = pytester.mkdir("notes")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", MODULE, "-p", "no:cacheprovider", "-n2", "-q"],
        env={**os.environ, "NOTES": str(notes)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "4 passed" in result.stdout, result.stdout + result.stderr
    workers, addresses = zip(*(note.name.split("-") for note in notes.iterdir()), strict=True)
    assert sorted(workers) == ["gw0", "gw1"]
    assert len(set(addresses)) == 2


def test_the_first_test_of_the_documentation_fails_and_then_passes(inner: Inner) -> None:
    text = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
    first = text.partition("```python\n")[2].partition("```")[0]
    assert '"retries": 0' in first
    result = inner.run(first)
    result.assert_outcomes(failed=1)
    (shown,) = (line.strip() for line in text.splitlines() if line.startswith("    E "))
    result.stdout.fnmatch_lines([shown.replace("[", "[[]"), "*- Captured kproxy call -*"])
    inner.run(first.replace('"retries": 0', '"enable.idempotence": True')).assert_outcomes(passed=1)


def entry_points() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: dict[str, str] = project["project"]["entry-points"]["pytest11"]
    return found


@pytest.mark.parametrize("arguments", [(), ("-p", MODULE)])
def test_an_installed_plugin_is_there_once(pytester: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    info = pytester.mkdir("installed") / "kafka_kproxy-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kafka-kproxy-plugin\nVersion: 0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in entry_points().items())
    (info / "entry_points.txt").write_text(f"[pytest11]\n{lines}")
    pytester.makepyfile("def test_it(pytestconfig): assert pytestconfig.getoption('kproxy_keep') is None")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, "-p", "no:cacheprovider", "-q", "--fixtures"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(info.parent), str(ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("kproxy_cluster [session scope]") == 1


def test_importing_the_plugin_imports_little_else_of_kproxy() -> None:
    program = f"import sys, pytest, {MODULE}; print(*(name for name in sys.modules if name.startswith('kproxy')))"
    said = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert set(said.stdout.split()) == {"kproxy", "kproxy.testing", MODULE}
