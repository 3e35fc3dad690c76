"""Makes docs/torture.md of the results of `python -m tests.torture`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kproxy.torture.scenario import Scenario, scenarios

HEAD = """\
# What clients do in kproxy's scenarios

`python -m tests.torture` runs each scenario of [`kproxy torture`](torturing.md) with each client against Apache Kafka
{release} (three brokers in KRaft) and writes this page. Each client sends 40 records in four batches with idempotence
or in transactions, or reads 40 records in a group and commits. Request timeouts are 4 seconds (kafka-python's
consumer 7 seconds); other settings are in [tests/torture/clients](../tests/torture/clients).

A cell is one run: what kproxy found, and the time from the first fault to the end of the program, in seconds, which
contains the work that was left (about 1 to 2 seconds). A single run shows what a client may do, not what it always
does.

- **passed**: each record is there (or was read) and the program ended without an error.
- **told**: the program ended with an error, as a correct one may in this scenario; no record is there twice.
- **failed**: the program ended with an error although the fault passes, or read what it must not.
- **lost**, **doubled**: the program reported success, but records are missing; records are in the log twice.
- **hung**: the program was killed after 60 seconds.
- **not met**: the client does not send what the fault is about.
"""
BELOW = """\
Below, `#12 Produce*` is exchange 12 of the run's capture; the star marks exchanges on which a rule acted, and in
parentheses are the errors that the client got. The exchanges are those from the first fault on; like ones in a row are
written once. The captures are in build/torture/CLIENT after a run.
"""

ERROR = re.compile(r"^\S*(?:Error|Exception)\S*:|_ERR|KafkaError|UNKNOWN_TOPIC_ID")
LONGEST = 200
"""Characters of a program's words that are shown."""
QUIET = {"passed", "not met"}


def text(results: Mapping[str, Any], release: str) -> str:
    """The page."""
    clients = list(results)
    titles = [f"{name} {results[name]['version']}" for name in clients]
    lines = [HEAD.format(release=release), f"| scenario | {' | '.join(titles)} |", "| --- |" + " --- |" * len(clients)]
    every = list(scenarios())
    for scenario in every:
        cells = [_cell(results[name]["results"].get(scenario.name)) for name in clients]
        lines.append(f"| [{scenario.name}](#{scenario.name}) | {' | '.join(cells)} |")
    lines += [
        "",
        BELOW,
    ]
    for scenario in every:
        lines += _section(scenario, results)
    return "\n".join(lines).rstrip() + "\n"


def _cell(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return "–"
    verdict = str(result["verdict"])
    shown = verdict if verdict in {"passed", "told", "not met"} else f"**{verdict}**"
    recovered = result.get("recovered")
    return shown if recovered is None or verdict in {"hung", "not met"} else f"{shown}, {recovered:.1f}"


def _said(output: str) -> str:
    """The first line of a program's output that names an error."""
    found = next((one.strip() for one in output.splitlines() if ERROR.search(one)), "")
    return f"; said `{found[:LONGEST].replace('`', '')}`" if found else ""


def _section(scenario: Scenario, results: Mapping[str, Any]) -> list[str]:
    lines = [
        f"## {scenario.name}",
        "",
        f"{scenario.fault} Seen in {scenario.seen}. A correct client: {scenario.correct}",
        "",
    ]
    for name, client in results.items():
        result = client["results"].get(scenario.name)
        if result is None:
            continue
        notes = f" ({'; '.join(result['notes'])})" if result["notes"] else ""
        story = ", ".join(result.get("story", ()))
        said = "" if result["verdict"] in QUIET else _said(result.get("output", ""))
        lines.append(f"- {name}: {result['verdict']}{notes}{f': {story}' if story else ''}{said}")
    return [*lines, ""]
