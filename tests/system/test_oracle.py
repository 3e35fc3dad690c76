"""Every message and version of two releases, with random values, as Kafka's own classes write and print them."""

from __future__ import annotations

import gzip
import json
import os
import secrets
import struct
import subprocess
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kproxy.decoders import tree
from kproxy.decoders.compiler import decoder
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.primitives import write_unsigned_varint
from kproxy.decoders.records.form import RecordsForm
from kproxy.decoders.schema import Definitions, Message, definitions
from kproxy.decoders.schema.layout import layout
from kproxy.decoders.view import View
from kproxy.decoders.writer import write
from tests.decoders.batches.support import batch, record
from tests.support.java import oracle_classpath
from tests.support.judge import DEFINITIONS, as_formatter, differences, judge_records
from tests.support.plain import plain

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

DATA = Path(__file__).parent.parent / "data"
MESSAGES = int(os.environ.get("KPROXY_ORACLE_MESSAGES", "30"))
# What the jars of a release hold: kinds of messages, and versions of them all together.
RELEASES = {
    "4.4.0": (
        {
            "coordinator-key": 25,
            "coordinator-value": 25,
            "data": 11,
            "header": 2,
            "metadata": 31,
            "request": 91,
            "response": 91,
        },
        741,
    ),
    # Keys and values of coordinators were plain data.
    "3.9.2": ({"data": 32, "header": 2, "metadata": 29, "request": 88, "response": 88}, 738),
}

canonical = partial(json.dumps, sort_keys=True)


@dataclass
class Judged:
    """What Kafka wrote: a line of JSON a message, and its account of what the messages cover."""

    release: str
    seed: int
    path: Path
    summary: dict[str, Any]

    def lines(self) -> Iterator[dict[str, Any]]:
        with gzip.open(self.path) as lines:
            yield from map(json.loads, lines)


@dataclass
class Differences:
    """Messages that are not read or written as Kafka does, counted by message version, the first of each in full."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, line: dict[str, Any], what: str) -> None:
        key = f"{line['name']} v{line['version']}"
        self.counts[key] += 1
        self.first.setdefault(key, f"{key}: {what}\n  bytes {line['bytes'][:400]}")

    def report(self) -> str:
        shown = list(self.first.values())[:10]
        return f"{sum(self.counts.values())} messages of {len(self.counts)} versions differ\n" + "\n".join(shown)


@pytest.fixture(scope="module")
def seed() -> int:
    """A new one in each run, unless KPROXY_ORACLE_SEED gives the one of a run that failed."""
    given = os.environ.get("KPROXY_ORACLE_SEED")
    return int(given) if given else secrets.randbits(48)


@pytest.fixture(scope="module", params=list(RELEASES))
def judged(request: pytest.FixtureRequest, seed: int, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    release = request.param
    path = tmp_path_factory.mktemp("oracle") / f"{release}.jsonl.gz"
    run = subprocess.run(
        ["java", "-Xmx512m", "-cp", oracle_classpath(release), "kproxy.oracle.Oracle", str(seed), str(MESSAGES), path],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return Judged(release, seed, path, json.loads(run.stdout))


@pytest.fixture
def known(judged: Judged) -> Definitions:
    return definitions(DEFINITIONS[judged.release])


def difference(ours: Any, theirs: Any, path: str = "") -> str:
    """The first place where two JSON values differ; "" where they are the same to the type of a number."""
    if type(ours) is not type(theirs):
        return f"{path}: {ours!r:.200} is not Kafka's {theirs!r:.200}"
    if isinstance(ours, dict):
        if ours.keys() != theirs.keys():
            return f"{path}: fields {sorted(ours.keys() ^ theirs.keys())} are on one side only"
        return next(filter(None, (difference(ours[name], theirs[name], f"{path}.{name}") for name in ours)), "")
    if isinstance(ours, list):
        if len(ours) != len(theirs):
            return f"{path}: {len(ours)} entries, Kafka's {len(theirs)}"
        pairs = enumerate(zip(ours, theirs, strict=True))
        return next(filter(None, (difference(a, b, f"{path}[{index}]") for index, (a, b) in pairs)), "")
    return "" if canonical(ours) == canonical(theirs) else f"{path}: {ours!r:.200} is not Kafka's {theirs!r:.200}"


def compare(line: dict[str, Any], known: Definitions) -> str:
    """What is wrong with how we read and write one message; "" where nothing is."""
    name, version, data = line["name"], line["version"], b64decode(line["bytes"])
    message = known.message(name, version)
    if message is None and name.endswith("Key"):
        # In 3.9 the record type was the version of the key.
        message, version = known.record("__consumer_offsets", "coordinator-key", version, 0), 0
    if message is None:
        return "is not among our definitions"
    view = memoryview(data)
    values, end = decoder(message, version)(view, 0, len(data))
    if end != len(data):
        return f"{len(data) - end} bytes are left"
    body = json.loads(json.dumps(body_json(values, message, version, View(show_secrets=True))))
    if found := difference(plain(body), line["body"]):
        return found
    written = write(message, version, values)
    if written != data:
        return f"is written as {written.hex()[:400]}"
    root = tree.tree(message, version, view, 0, len(data))
    problems = [node.problem for node in root.walk() if node.problem is not None]
    if problems:
        return f"the tree has problems: {problems}"
    if root.end != len(data):
        return f"the tree leaves {len(data) - root.end} bytes"
    as_tree = json.loads(
        json.dumps(body_json(tree.values(root, layout(message, version)), message, version, View(show_secrets=True)))
    )
    if found := difference(as_tree, body):
        return f"tree: {found}"
    return ""


def test_every_message_is_read_and_written_as_kafka_does(
    judged: Judged, known: Definitions, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    differences = Differences()
    seen: Counter[tuple[str, int]] = Counter()
    for line in judged.lines():
        seen[line["name"], line["version"]] += 1
        try:
            wrong = compare(line, known)
        except Exception as error:  # noqa: BLE001 - one message that breaks must not hide the others
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            differences.add(line, wrong)
    with capsys.disabled():
        print(
            f"\noracle {judged.release}: seed {judged.seed}, {sum(seen.values())} messages of {len(seen)} versions, "
            f"{judged.summary['bytes']} bytes, {time.monotonic() - started:.1f} s"
        )
    assert not differences.counts, f"seed {judged.seed}: {differences.report()}"
    assert len(seen) == judged.summary["messageVersions"]
    assert min(seen.values()) >= MESSAGES


def test_all_messages_and_versions_of_the_release_are_there(judged: Judged) -> None:
    assert judged.summary["release"] == judged.release
    kinds, versions = RELEASES[judged.release]
    assert judged.summary["kinds"] == kinds
    assert judged.summary["messageVersions"] == versions
    assert judged.summary["messages"] >= versions * MESSAGES


def test_no_field_lacks_a_case(judged: Judged, capsys: pytest.CaptureFixture[str]) -> None:
    """Null and set, absent, default and set, empty and several, the extremes, text that is not ASCII."""
    with capsys.disabled():
        counts = ", ".join(f"{name.lower()} {count}" for name, count in judged.summary["cases"].items())
        print(f"\noracle {judged.release}: {judged.summary['wanted']} field cases wanted; seen: {counts}")
    assert judged.summary["missing"] == [], f"seed {judged.seed}"
    assert min(judged.summary["cases"].values()) > 0
    assert judged.summary["unknownTags"] > 0


def test_our_definitions_know_no_version_that_kafka_does_not(judged: Judged, known: Definitions) -> None:
    ours = {
        (api.name + suffix, version)
        for api in known.apis.values()
        for suffix in ("Request", "Response")
        for version in range(40)
        if (message := known.message(api.name + suffix, version)) is not None
        and message.release.startswith(judged.release[:3])
    }
    theirs = {(line["name"], line["version"]) for line in judged.lines()}
    assert ours
    assert ours <= theirs


def records_of(lines: Iterator[dict[str, Any]]) -> list[tuple[Message, int, bytes]]:
    """Bodies of records of internal topics, without those that have fields that Kafka does not print."""
    found = []
    for line in lines:
        message = definitions().message(line["name"], line["version"])
        if message is not None and message.topic is not None and "_unknownTaggedFields" not in json.dumps(line):
            found.append((message, line["version"], b64decode(line["bytes"])))
    return found


@pytest.mark.parametrize("judged", ["4.4.0"], indirect=True)
def test_records_of_internal_topics_are_framed_as_kafka_does(judged: Judged) -> None:
    bodies = records_of(judged.lines())
    keys = {(message.topic, message.record_type): data for message, _, data in bodies if message.kind.endswith("key")}
    asked: list[tuple[str, bytes | None, bytes | None]] = []
    for message, version, data in bodies:
        topic, number = message.topic, message.record_type
        assert topic is not None
        assert number is not None
        if message.kind == "metadata":
            header = b"\1" + write_unsigned_varint(number) + write_unsigned_varint(version)
            asked.append((topic, None, header + data))
        elif message.kind == "coordinator-key":
            asked.append((topic, struct.pack(">h", number) + data, None))
        else:
            key = struct.pack(">h", number) + keys[topic, number]
            asked.append((topic, key, struct.pack(">h", version) + data))
    assert {(message.name, version) for message, version, _ in bodies} == {
        (message.name, version)
        for message in definitions().messages()
        if message.topic is not None and message.release == "4.4.0"
        for version in range(message.versions.low, message.versions.high + 1)
    }
    for one, theirs in zip(asked, judge_records(asked), strict=True):
        assert as_kafka(one) == theirs, one


def as_kafka(asked: tuple[str, bytes | None, bytes | None]) -> dict[str, Any]:
    """What we read in a record, in the form of Kafka's formatters."""
    topic, key, value = asked
    form = RecordsForm(batch(record(0, key, value), 1))
    # Random bytes stand where members write structures of their own.
    form.open(body_json, View(show_secrets=True, inside=False), topic)
    assert form.troubles == []
    (shown,) = form["batches"][0]["records"]
    return as_formatter(json.loads(json.dumps(shown)))


@pytest.mark.parametrize(
    ("release", "capture"),
    [
        ("4.4.0", "captures/kafka-4.4.0-librdkafka.pcap"),
        ("3.9.2", "captures/kafka-1.1.1.pcap"),
        ("4.4.0", "golden/golden-4.4.0.pcap"),
        ("3.9.2", "golden/golden-3.9.2.pcap"),
    ],
)
def test_recorded_traffic_is_read_as_kafka_does(release: str, capture: str) -> None:
    count, wrong = differences(DATA / capture, release)
    assert count > 300
    assert not wrong, wrong[:5]
