"""Runs all scenarios of `kproxy torture` with all clients against a real cluster, and writes docs/torture.md.

    python -m tests.torture                                      # all: a quarter of an hour
    python -m tests.torture --scenario blackhole --client java   # replaces these results and keeps the others

Results and captures are in build/torture.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kproxy.torture.scenario import Scenario, names, scenarios
from kproxy.torture.trial import Bench
from tests.support.brokers import cluster
from tests.torture import page
from tests.torture.clients.table import CLIENTS, Client

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "torture"
RESULTS = WORK / "results.json"
RELEASE = "4.4.0"
NODES = 3
SECONDS = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", action="append", choices=names(), help="only this scenario (repeatable)")
    parser.add_argument("--client", action="append", choices=sorted(CLIENTS), help="only this client (repeatable)")
    parser.add_argument("--at-once", type=int, default=3, help="trials at the same time")
    parser.add_argument("--upstream", help="bootstrap servers of a running cluster of 3 brokers")
    parser.add_argument("--page-only", action="store_true", help="write the page from the results that are there")
    given = parser.parse_args()
    chosen = list(scenarios(tuple(given.scenario or ())))
    wanted = given.client or list(CLIENTS)
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    WORK.mkdir(parents=True, exist_ok=True)
    if not given.page_only:
        with tempfile.TemporaryDirectory() as built, _brokers(given.upstream) as bootstrap:
            clients = {name: CLIENTS[name](Path(built)) for name in wanted}
            for name, client in clients.items():
                results.setdefault(name, {"results": {}})["version"] = client.version
            for name, scenario, result in _trials(bootstrap, clients, chosen, given.at_once):
                results[name]["results"][scenario] = result
                RESULTS.write_text(json.dumps(results, indent=1))
    (ROOT / "docs" / "torture.md").write_text(page.text(results, RELEASE), encoding="utf-8")


@contextlib.contextmanager
def _brokers(given: str | None) -> Iterator[str]:
    if given:
        yield given
        return
    with cluster(RELEASE, NODES) as running:
        yield running.bootstrap


def _trials(
    bootstrap: str, clients: dict[str, Client], chosen: list[Scenario], at_once: int
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(client, scenario, result) of each trial."""

    def trial(pair: tuple[str, Scenario]) -> tuple[str, str, dict[str, Any]]:
        name, scenario = pair
        bench = Bench(bootstrap, mock=False, seconds=SECONDS, keep=WORK / name)
        try:
            result = bench.trial(scenario, clients[name].command).to_json()
        except Exception as error:  # noqa: BLE001 (the other trials go on)
            result = {"verdict": "no result", "notes": [f"{type(error).__name__}: {error}"]}
        print(f"{name:<14} {scenario.name:<32} {result['verdict']:<9} {'; '.join(result['notes'])}", flush=True)
        return name, scenario.name, result

    pairs = [(name, scenario) for scenario in chosen for name in clients]
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(trial, pairs)


if __name__ == "__main__":
    main()
