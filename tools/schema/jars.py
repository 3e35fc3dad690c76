"""Reads a Kafka release: definitions of messages and of internal topics' records, and facts of its enums."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

JAVA = Path(__file__).parent / "java"
TIMEOUT = 600

TOPICS = {
    "kafka-group-coordinator": "__consumer_offsets",
    "kafka-transaction-coordinator": "__transaction_state",
    "kafka-share-coordinator": "__share_group_state",
    "kafka-metadata": "__cluster_metadata",
    "kafka-storage": "__remote_log_metadata",
}
"""By name of a jar, the internal topic whose records it defines."""

_COMMENT_OR_STRING = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_DEFINITION = re.compile(r"(common/)?(message|metadata)/\w+\.json").fullmatch


@dataclass(frozen=True)
class Release:
    """The contents of a Kafka release.

    `definitions` are the JSON definitions by message name; `apis` and `errors` are facts by number, as
    `java/Facts.java` prints them. `records` are the definitions of the records of internal topics, by topic; `streams`
    those of the Streams client, each with its own "release".
    """

    version: str
    definitions: dict[str, dict[str, Any]]
    apis: dict[int, dict[str, Any]]
    errors: dict[int, dict[str, Any]]
    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    streams: list[dict[str, Any]] = field(default_factory=list)


def read_commented_json(text: str) -> Any:
    """JSON with comments, as Kafka writes its definitions. Raises ValueError on bad JSON."""
    return json.loads(_COMMENT_OR_STRING.sub(lambda found: found[0] if found[0][0] == '"' else "", text))


def fetch(version: str, into: Path) -> Release:
    """Fetch the jars of a release through Maven and read them.

    `version` is a version or a Maven range of them ("[4.4.0,)" is the newest). Raises CalledProcessError if Maven
    or Java fails.
    """
    release = fetch_clients(version, into)
    records, streams = _internal(version, into / "internal")
    return replace(release, records=records, streams=streams)


def fetch_clients(version: str, into: Path) -> Release:
    """Like `fetch`, without the records of internal topics and of Streams."""
    _copy("pom.xml", version, into)
    (jar,) = into.glob("kafka-clients-*.jar")
    facts = [json.loads(line) for line in _run(["java", "-cp", f"{into}/*", str(JAVA / "Facts.java")]).splitlines()]
    return Release(
        version=jar.stem.removeprefix("kafka-clients-"),
        definitions={definition["name"]: definition for definition in _definitions(jar)},
        apis={fact["api"]: fact for fact in facts if "api" in fact},
        errors={fact["error"]: fact for fact in facts if "error" in fact},
    )


def _internal(version: str, into: Path) -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
    _copy("internal.xml", version, into)
    records, streams = {}, []
    for jar in sorted(into.glob("*.jar")):
        artifact, _, release = jar.stem.rpartition("-")
        if artifact in TOPICS:
            records[TOPICS[artifact]] = _definitions(jar)
        else:
            streams += [definition | {"release": release} for definition in _definitions(jar)]
    return records, streams


def _copy(project: str, version: str, into: Path) -> None:
    _run(
        [
            *("mvn", "-q", "-B", "-U", "-f", str(JAVA / project), "dependency:copy-dependencies"),
            *(f"-DoutputDirectory={into}", f"-Dkafka.version={version}"),
        ]
    )


def _definitions(jar: Path) -> list[dict[str, Any]]:
    with zipfile.ZipFile(jar) as archive:
        return [
            read_commented_json(archive.read(name).decode()) for name in sorted(archive.namelist()) if _DEFINITION(name)
        ]


def explained(error: OSError | subprocess.SubprocessError) -> str:
    """A failure of Maven or Java as a message for the developer."""
    if isinstance(error, FileNotFoundError):
        return f"{error.filename} is not installed"
    output = getattr(error, "stderr", None)
    return f"{output}\n{error}" if output else str(error)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stdout + done.stderr)
    return done.stdout
