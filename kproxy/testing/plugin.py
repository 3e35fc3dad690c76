"""The pytest plugin: options, the marker `kproxy`, the fixtures `kproxy_cluster` and `kproxy`, and reports of failures.

pytest imports this module whenever it starts, so everything else of kproxy is imported at first use.
PYTEST_DONT_REWRITE: there is no assertion in it (see kproxy/__init__.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kproxy.library.live import Session
    from kproxy.testing.facade import Kproxy

_IN_USE: pytest.StashKey[tuple[Kproxy, Path]] = pytest.StashKey()
"""The proxy of a running test, and the folder for its capture; removed once that is kept."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kproxy", "kproxy: a proxy between tests and Kafka")
    group.addoption(
        "--kproxy-upstream",
        metavar="HOST:PORT",
        help="Bootstrap servers of a cluster for the fixture kproxy; the default is librdkafka's mock cluster.",
    )
    group.addoption(
        "--kproxy-keep",
        metavar="DIR",
        help="Directory for captures and findings of failed tests; the default is in pytest's temporary directory.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "kproxy(*rules, optional=False): rules of kproxy that act on the test's traffic (docs/faults.md)"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function) and "kproxy" not in item.fixturenames and item.get_closest_marker("kproxy"):
        # A marked test without the fixture gets it, and fails if its client bypasses the proxy: its rules never fire.
        item.fixturenames.insert(0, "kproxy")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Keeps the capture and findings of a failed test, and names their files in the report that is made next."""
    used = item.stash.get(_IN_USE, None)
    if used is None or call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception):
        return
    del item.stash[_IN_USE]
    from kproxy.testing.keeping import keep

    try:
        text = keep(used[0], item.nodeid, used[1])
    except Exception as error:  # noqa: BLE001 (the test's own failure is what its author must see)
        text = f"the capture of this test could not be kept: {type(error).__name__}: {error}"
    item.add_report_section(call.when, "kproxy", text)


@pytest.fixture(scope="session")
def kproxy_cluster(request: pytest.FixtureRequest) -> Iterator[str]:
    """Bootstrap servers of the cluster behind the proxy. Override this fixture, with scope session, for your own."""
    given = request.config.getoption("--kproxy-upstream")
    if given:
        yield str(given)
        return
    from kproxy.decoders.extras import installing
    from kproxy.runs.demo import start_cluster

    try:
        keeper, bootstrap = start_cluster()
    except ImportError:
        pytest.fail(f"the mock cluster needs librdkafka: {installing('pytest')}", pytrace=False)
    yield bootstrap
    del keeper


@pytest.fixture(scope="session")
def _kproxy_session(kproxy_cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    from kproxy.library.live import Session

    session = Session(kproxy_cluster, tmp_path_factory.mktemp("kproxy"))
    yield session
    session.close()


@pytest.fixture
def kproxy(request: pytest.FixtureRequest, _kproxy_session: Session) -> Iterator[Kproxy]:
    """A proxy between the test's clients and the cluster, with the rules of the test's markers (docs/testing.md)."""
    from kproxy.testing.facade import Kproxy, silent_rules

    proxy = Kproxy(_kproxy_session)
    keep = request.config.getoption("--kproxy-keep")
    request.node.stash[_IN_USE] = proxy, Path(keep) if keep else _kproxy_session.state
    try:
        for mark in request.node.iter_markers("kproxy"):
            for rule in mark.args:
                fault = proxy.fault(rule)
                fault.must_fire = not mark.kwargs.get("optional", False)
        yield proxy
    finally:
        silent = silent_rules(proxy.end_rules())
    if silent and _IN_USE in request.node.stash:  # if the test has failed already, silent rules are of no interest
        rules = "\n".join(f"  {fault.text}" for fault in silent)
        pytest.fail(f"rules that never fired (.optional() allows it):\n{rules}", pytrace=False)
