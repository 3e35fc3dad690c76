"""Makes faults on real brokers and keeps their captures: `python -m tests.recipes RULE...`."""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, __version__, libversion

from kproxy.captures.findings.model import Severity
from tests.recipes import RECIPES
from tests.recipes.kept import KEPT, findings, telling
from tests.recipes.recipe import Recipe, Stage
from tests.support.brokers import Cluster, cluster
from tests.support.facts import told
from tests.support.proxy import Proxy
from tests.support.raw import RawClient
from tests.support.tcpdump import captured

LARGEST = 150_000
"""Most bytes of a kept capture."""


def main(rules: list[str]) -> int:
    if not rules:
        for rule, recipe in RECIPES.items():
            print(f"{rule}: Kafka {recipe.release}, {recipe.nodes} node(s): {recipe.words}")
        return 0
    failed = 0
    for (release, nodes, _), found in groupby(sorted(rules, key=_place), _place):
        names = list(found)
        with cluster(release, nodes, partial(_of_node, RECIPES[names[0]].settings)) as running:
            for rule in names:
                failed += not _make(running, rule, RECIPES[rule])
    return 1 if failed else 0


def _place(rule: str) -> tuple[str, int, str]:
    """What recipes have in common that use one cluster. Those with several brokers may stop some: each has its own."""
    recipe = RECIPES[rule]
    return recipe.release, recipe.nodes, repr(recipe.settings) + (rule if recipe.nodes > 1 else "")


def _of_node(settings: Mapping[str, object], node: int) -> dict[str, object]:
    return {name: value[node - 1] if isinstance(value, tuple) else value for name, value in settings.items()}


def _make(running: Cluster, rule: str, recipe: Recipe) -> bool:
    """Make a fault; its capture is kept if the finding is there. Otherwise it stays in the temporary directory."""
    capture = Path(tempfile.mkdtemp(prefix="recipe-")) / f"{rule}.pcap"
    try:
        with (
            _front(running, recipe, capture.parent) as (bootstrap, ports),
            captured(capture, " or ".join(f"tcp port {port}" for port in ports), recipe.snap),
        ):
            recipe.make(Stage(running, bootstrap))
    except (AssertionError, OSError, KafkaException) as problem:
        print(f"{rule}: {problem}", file=sys.stderr)
        return False
    found = findings(capture)
    for one in found:
        print(f"{one.severity.name:5} {one.rule} {one.scope.name}: {one.summary} [{one.cause}]")
    if not telling(found, rule, recipe.words):
        print(f"{rule}: no such finding with the words {recipe.words!r}; its capture is {capture}", file=sys.stderr)
        return False
    packed = lzma.compress(capture.read_bytes(), preset=9)
    if len(packed) > LARGEST:
        print(f"{rule}: {len(packed)} bytes are too many to keep: make the recipe shorter ({capture})", file=sys.stderr)
        return False
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{rule}.pcap.xz").write_bytes(packed)
    about: dict[str, Any] = {
        "made": f"{datetime.now(UTC):%Y-%m-%d}: Kafka {recipe.release}, confluent-kafka {__version__}, "
        f"librdkafka {libversion()[0]}; {recipe.make.__module__}.{recipe.make.__name__}",
        "words": recipe.words,
        "loud": sorted(set(told(one for one in found if one.severity >= Severity.WARN))),
    }
    (KEPT / f"{rule}.json").write_text(json.dumps(about, indent=2) + "\n")
    return True


@contextmanager
def _front(running: Cluster, recipe: Recipe, directory: Path) -> Iterator[tuple[str, list[int]]]:
    """(the address of the clients' cluster, the ports whose packets are captured)."""
    if not recipe.faults:
        yield running.bootstrap, [*running.ports, *(running.controllers if recipe.among_brokers else ())]
        return
    rules = [option for rule in recipe.faults for option in ("--fault", rule)]
    with Proxy(running.bootstrap, directory / "kproxy", *rules) as proxy:
        with RawClient(proxy.bootstrap) as client:
            client.ask("Metadata", 4, {"topics": []})  # from then on kproxy listens for each broker
        yield proxy.bootstrap, sorted({proxy.port, *proxy.listeners()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
