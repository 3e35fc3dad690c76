"""Whatever breaks the interface of `kproxy run`, the traffic of clients goes on."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from kproxy.cli.exits import Exit
from kproxy.runs.demo import start_cluster
from kproxy.runs.launcher import wait_until
from tests.support.brokers import free_ports
from tests.support.checksummed import Traffic
from tests.support.patience import SECONDS
from tests.support.proxy import environment, kproxy
from tests.support.screens import Painted

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
AT_START = (
    ("kproxy.tui.app", "ImportError"),
    ("kproxy.tui.screens.exchanges", "ImportError"),
    ("textual.app", "ImportError"),
    ("kproxy.tui.app:KproxyApp.__init__", "ValueError"),
    ("kproxy.tui.app:KproxyApp.on_mount", "KeyError"),
    ("kproxy.tui.screens.exchanges:ExchangesScreen.compose", "TypeError"),
    ("kproxy.tui.terminal.driver:TerminalDriver.start_application_mode", "OSError"),
    ("kproxy.runs.launcher:Indexer.__init__", "OSError"),
)
"""(place, error) where the interface breaks before it is painted."""
WHILE_IT_PAINTS = (
    ("kproxy.tui.screens.exchanges:ExchangesScreen._tick", "IndexError"),
    ("kproxy.tui.widgets.exchange_list:ExchangeList.segments", "ZeroDivisionError"),
    ("kproxy.tui.widgets.lines:Lines.action_move", "RuntimeError"),
    ("kproxy.tui.widgets.painted:Painted.render_lines", "MemoryError"),
    ("kproxy.tui.detail.presenter:Presenter.show", "RecursionError"),
    ("kproxy.tui.captions:Captions.title", "ArithmeticError"),
    ("kproxy.tui.app:KproxyApp.on_event", "AssertionError"),
    ("kproxy.tui.terminal.driver:TerminalDriver.process_message", "LookupError"),
    ("kproxy.captures.index.reader:IndexReader.refresh", "OSError"),
)
SIGNALS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT)


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    keeper, bootstrap = start_cluster()
    yield bootstrap
    del keeper


class Broken:
    """`kproxy run` with its interface, which breaks at a place once `flag` exists; at once without one."""

    def __init__(self, cluster: str, directory: Path, place: str, error: str, flag: Path | None) -> None:
        self._directory = directory / "places"
        self.listen = f"127.0.0.1:{free_ports(1)[0]}"
        self._environment = {
            **environment(self._directory),
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
        }
        self.painted = Painted(
            [sys.executable, "-m", "tests.support.breaking", place, error, str(flag or ""), "run", "--name", "broken",
             "--upstream", cluster, "--listen", self.listen],
            self._environment,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.painted.__exit__(None, None, None)
        kproxy(self._directory, "stop", "broken")

    def attached(self) -> str:
        """What `kproxy ps` says."""
        return kproxy(self._directory, "ps").stdout


def goes_on(traffic: Traffic) -> bool:
    """Whether more is delivered than now."""
    before = traffic.delivered.total()
    return wait_until(lambda: traffic.delivered.total() > before + 100, SECONDS)


@pytest.mark.parametrize(("place", "error"), AT_START)
def test_an_interface_that_does_not_start(cluster: str, tmp_path: Path, place: str, error: str) -> None:
    with Broken(cluster, tmp_path, place, error, None) as broken:
        assert broken.painted.end() == Exit.BUG, broken.painted.text
        assert "kproxy attach broken shows it" in broken.painted.text
        with Traffic(broken.listen) as traffic:
            assert goes_on(traffic)
        traffic.check()
        assert "broken" in broken.attached()


@pytest.mark.parametrize(("place", "error"), WHILE_IT_PAINTS)
def test_an_interface_that_breaks_while_traffic_passes(cluster: str, tmp_path: Path, place: str, error: str) -> None:
    flag = tmp_path / "break"
    with Broken(cluster, tmp_path, place, error, flag) as broken:
        broken.painted.wait_for("No client has sent anything yet")
        with Traffic(broken.listen) as traffic:
            broken.painted.wait_for("Produce")
            flag.touch()
            broken.painted.press("jk")
            assert broken.painted.end() == Exit.BUG, broken.painted.text
            assert "kproxy attach broken shows it" in broken.painted.text
            assert "Traceback" not in broken.painted.text
            assert goes_on(traffic)
        traffic.check()


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interface_that_is_killed(cluster: str, tmp_path: Path, number: signal.Signals) -> None:
    with Broken(cluster, tmp_path, "kproxy.tui.app:KproxyApp.end", "ValueError", tmp_path / "never") as broken:
        broken.painted.wait_for("No client has sent anything yet")
        with Traffic(broken.listen) as traffic:
            broken.painted.wait_for("Produce")
            broken.painted.process.send_signal(number)
            assert broken.painted.process.wait(SECONDS) == -number
            assert goes_on(traffic)
            assert "broken" in broken.attached()
        traffic.check()
