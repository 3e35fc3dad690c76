"""Clients report the error that a rule makes, in every version of every API that they use.

The broker offers a client one version of one API; the client's next request of that API gets an error.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kproxy.decoders.schema import definitions
from kproxy.decoders.schema.apis import all_apis
from kproxy.runs.registry import ask
from tests.kproxy.support import places, relay
from tests.support.brokers import cluster
from tests.support.java import broker_classpath
from tests.support.judge import DEFINITIONS
from tests.support.require import require

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

TOPIC = "orders"
PROGRAMS = {"java": 1, "librdkafka": 8}
# What clients do with a code depends on the API: these are reported as they are, not retried.
ERRORS = {
    **dict.fromkeys(("Fetch", "Metadata", "ShareFetch", "ConsumerGroupHeartbeat"), "TOPIC_AUTHORIZATION_FAILED"),
    **dict.fromkeys(
        ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn"), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    ),
    "EndTxn": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "Heartbeat": "FENCED_INSTANCE_ID",
}
OTHERWISE = "GROUP_AUTHORIZATION_FAILED"


JAVA = Path(__file__).parent / "clients" / "Verdicts.java"


def program(client: str) -> tuple[str, ...]:
    if client == "java":
        return "java", "-Xmx512m", "-cp", broker_classpath("4.4.0"), str(JAVA)
    return sys.executable, "-W", "ignore:alter_configs has been deprecated", "-m", "tests.system.clients.verdicts"


def reported(client: str, bootstrap: str, asked: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The error that each client reports, from (client id, API), by client id; shared among PROGRAMS processes."""

    def one(asked: Sequence[tuple[str, str]]) -> str:
        lines = "".join(f"{name}\t{api}\n" for name, api in asked)
        command = [*program(client), bootstrap, TOPIC]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    with ThreadPoolExecutor() as threads:
        count = PROGRAMS[client]
        said = threads.map(one, [asked[first::count] for first in range(count)])
        return dict(line.split("\t") for text in said for line in text.splitlines())


USED = {("java", "4.4.0"): 245, ("librdkafka", "4.4.0"): 124, ("librdkafka", "3.9.2"): 139}
"""Number of pairs of API and version that a client uses with a broker's release, of those with a call."""


def rules(name: str, api: str, version: int) -> list[str]:
    """Rules for a client that uses one version of an API and gets an error for its first request of it."""
    error = f"error {ERRORS.get(api, OTHERWISE)}{'' if api == 'Metadata' else ' not applied'}"
    found = [
        f"{name}: client.id == {name} and api == {api} and version == {version} => {error}",
        f"client.id == {name} and api == ApiVersions => versions {api} {version}-{version}",
    ]
    if api in {"AddPartitionsToTxn", "AddOffsetsToTxn"}:  # the newer transaction protocol (KIP-890) needs neither
        found.append(f"client.id == {name} and api == ApiVersions => set response.body.finalizedFeatures = []")
    return found


@pytest.mark.parametrize(("client", "release"), list(USED))
def test_clients_report_the_error(client: str, release: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require("java")
    places(monkeypatch, tmp_path)
    cases: dict[str, tuple[str, int]] = {}
    for key, version in definitions(DEFINITIONS[release]).pairs(release.rpartition(".")[0]):
        api = all_apis()[key].name
        cases[f"{api}-{version}"] = api, version
    given = [rule for name, (api, version) in cases.items() for rule in rules(name, api, version)]
    with cluster(release, 1) as brokers:
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(60)
        with relay(brokers.bootstrap, faults=tuple(given), record=False) as process:
            found = reported(client, process.bootstrap, [(name, api) for name, (api, _) in cases.items()])
            met = {rule["name"] for rule in ask(process.run_dir, "faults", op="list")["rules"] if rule["hits"]}
    wanted = {name: ERRORS.get(cases[name][0], OTHERWISE) for name in met & found.keys()}
    assert {name: found[name] for name in wanted} == wanted
    assert len(wanted) == USED[client, release]
