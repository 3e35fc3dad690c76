"""In CI a skipped test is a failed one: what the machine lacks must be installed, not passed over."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Generator

import hypothesis
import pytest

from tests.support.homes import homes

# How long an example takes depends on the machine's load; `make fuzz` tries many more.
hypothesis.settings.register_profile(
    "kproxy",
    deadline=None,
    max_examples=40,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much],
)
hypothesis.settings.load_profile("kproxy")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collected tests live to the end: without garbage collection over them, collecting takes a quarter less time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def places_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Gives this worker kproxy's directories, a directory for temporary files of its own, and a terminal with colours.

    A run whose state directory has too long a path for a socket keeps its state in the directory for temporary files,
    and `kproxy ps` looks there: with one directory for all workers, a test would see the runs of another one.
    """
    home = tmp_path_factory.mktemp("home")
    with tempfile.TemporaryDirectory(prefix="kt-") as temporary, pytest.MonkeyPatch.context() as patch:
        for name, value in {**homes(home), "TMPDIR": temporary, "TERM": "xterm-256color"}.items():
            patch.setenv(name, value)
        patch.setattr(tempfile, "tempdir", None)  # tempfile reads TMPDIR only once
        yield


class Failures:
    """Prints each failed test and why as it fails: a run that is killed has named its failures by then."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.write_line("")
            self._terminal.write_line(f"FAILED in {report.when}: {report.nodeid}")
            for line in report.longreprtext.splitlines():
                if line.startswith("E "):
                    self._terminal.write_line(f"  {line}")
            self._terminal.flush()


@pytest.hookimpl(trylast=True)  # the terminal is registered by then
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:  # workers of xdist have none
        config.pluginmanager.register(Failures(terminal), "failures")


ALLOWED_SKIPS: dict[str, str] = {}
"""Test id (or its beginning) to the reason why CI may skip it."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    del call
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        allowed = any(item.nodeid.startswith(name) for name in ALLOWED_SKIPS)
        if not allowed:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            report.outcome = "failed"
            report.longrepr = f"skipped in CI: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that skips itself as a whole is held to the same rule."""
    report = yield
    if report.outcome == "skipped" and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} skipped as a whole in CI: {report.longrepr}"
    return report
