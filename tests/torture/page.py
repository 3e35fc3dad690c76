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
consumer 7 seconds); other settings are in `tests/torture/clients`.

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

REMARKS = {
    ("answers-swapped", "java", "failed"): (
        "Both answers are read with the wrong request; commitSync throws CorrelationIdMismatchException, which is no "
        "KafkaException, so the program's handler for failed commits does not catch it."
    ),
    ("correlation-mismatch", "java", "failed"): (
        "The batch is not sent again. Its records expire after delivery.timeout.ms (30 s), although the broker has "
        "them."
    ),
    ("lying-lengths", "java", "hung"): (
        "After the answer whose length says 2 GiB, the producer sends nothing more, and no future is completed, not "
        "even after delivery.timeout.ms. The heap is 128 MiB."
    ),
    ("lying-lengths", "librdkafka", "failed"): (
        "The application is told that records failed (_BAD_MSG) which are in the log: all 40 are there, once."
    ),
    ("lying-lengths", "kafka-python", "failed"): "The batch is not sent again after the negative length.",
    ("topic-id-changed", "aiokafka", "not met"): "It asks for Metadata in a version without topic ids.",
    ("topic-id-changed", "franz-go", "hung"): (
        "It fetches with the first topic id to the end, more than a thousand times a second, although later answers to "
        "Metadata name the right one."
    ),
    ("unstable-offset-commit", "aiokafka", "failed"): "getmany raises UnknownError; the request is not sent again.",
    ("wrong-crc", "librdkafka", "passed"): "It reads the batch all the same: check.crcs is off by default.",
    ("wrong-crc-sent", "aiokafka", "failed"): "CORRUPT_MESSAGE is not retried.",
    ("wrong-crc-sent", "kafka-python", "failed"): "CORRUPT_MESSAGE is not retried.",
    ("wrong-crc-sent", "franz-go", "failed"): "CORRUPT_MESSAGE is not retried.",
    ("zero-partitions", "aiokafka", "failed"): "Sending to a named partition fails at once; it does not ask again.",
    ("zero-partitions", "kafka-python", "failed"): "Sending to a named partition fails at once; it does not ask again.",
}
"""What somebody saw in the captures, by scenario, client and verdict."""


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
        if remark := REMARKS.get((scenario.name, name, str(result["verdict"]))):
            lines.append(f"  {remark}")
    return [*lines, ""]
