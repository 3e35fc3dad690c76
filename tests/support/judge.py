"""Compares kproxy's reading of recorded traffic with that of Kafka's own classes."""

from __future__ import annotations

import json
import subprocess
from base64 import b64encode
from contextlib import closing
from pathlib import Path
from typing import Any

from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.message import Decoded, decode_request, decode_response
from kproxy.decoders.schema import definitions
from kproxy.decoders.view import View
from tests.support.java import oracle_classpath
from tests.support.plain import plain

# None means kproxy's newest definitions; an older release is read with its own names and layouts.
DEFINITIONS: dict[str, str | None] = {"4.4.0": None, "3.9.2": "3.9"}


def bodies(recording: Path, release: str) -> list[tuple[Decoded, bytes]]:
    """Every frame with a Kafka header: kproxy's reading of it, and its bytes after the header."""
    known = definitions(DEFINITIONS[release])
    found = []
    with closing(read([recording], release=DEFINITIONS[release])) as reader:
        for exchange in reader:
            if not isinstance(exchange, Exchange) or exchange.api_key is None or exchange.api_version is None:
                continue
            if exchange.request is not None:
                data = bytes(exchange.request.data(reader.source))
                decoded = decode_request(data, known)
                found.append((decoded, data[decoded.body_start :]))
            if exchange.response is not None:
                data = bytes(exchange.response.data(reader.source))
                decoded = decode_response(data, exchange.api_key, exchange.api_version, known)
                found.append((decoded, data[decoded.body_start :]))
    return found


def judge(release: str, asked: list[tuple[str, int, bytes]]) -> list[Any]:
    """The body that Kafka reads in each (name, version, bytes), or a string with Kafka's error."""
    return _answers(release, "Judge", [f"{name}\t{version}\t{_base64(data)}" for name, version, data in asked])


def judge_errors(release: str, asked: list[tuple[int, int, bytes]]) -> list[Any]:
    """The errors that the Java client finds in each response (api key, version, bytes of the body): {name: count}.

    A string with Kafka's error where the client cannot read it.
    """
    return _answers(release, "ErrorJudge", [f"{api}\t{version}\t{_base64(data)}" for api, version, data in asked])


def judge_records(asked: list[tuple[str, bytes | None, bytes | None]]) -> list[Any]:
    """Kafka's reading of records of internal topics, each given as (topic, key, value), or a string with its error.

    A reading is {"key": {"type", "data"}, "value": {"type", "version", "data"}}.
    """
    lines = [f"{topic}\t{_base64(key)}\t{_base64(value)}" for topic, key, value in asked]
    return _answers("4.4.0", "RecordJudge", lines)


def judge_bearer(release: str, messages: list[bytes]) -> list[Any]:
    """The reading of first messages of OAUTHBEARER by Kafka's broker, or a string with its error.

    A reading is {"token", "authorizationId", "extensions"}.
    """
    return _answers(release, "BearerJudge", [_base64(data) for data in messages])


def as_formatter(record: dict[str, Any]) -> dict[str, Any]:
    """kproxy's JSON of a record of an internal topic, converted to the form of `judge_records`."""
    said: dict[str, Any] = {}
    for part in ("key", "value"):
        decoded = None if record[part] is None else record[part]["decoded"]
        said[part] = decoded and {name: plain(value) for name, value in decoded.items() if name != "name"}
    return said


def _base64(data: bytes | None) -> str:
    return "null" if data is None else b64encode(data).decode()


def _answers(release: str, program: str, lines: list[str]) -> list[Any]:
    run = subprocess.run(
        ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", oracle_classpath(release), f"kproxy.oracle.{program}"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return [json.loads(line) for line in run.stdout.splitlines()]


def differences(recording: Path, release: str) -> tuple[int, list[str]]:
    """Number of bodies compared, and descriptions of the differences."""
    ours = bodies(recording, release)
    wrong = [f"{decoded.header}: {decoded.problems}" for decoded, _ in ours if decoded.message is None]
    asked = [(decoded.message, decoded.version, decoded, data) for decoded, data in ours if decoded.message is not None]
    answers = judge(release, [(message.name, version, data) for message, version, _, data in asked])
    for (message, version, decoded, _), theirs in zip(asked, answers, strict=True):
        if decoded.problems and isinstance(theirs, str):
            continue  # both reject it
        body = decoded.body
        shown = None if body is None else plain(body_json(body, message, version, View(show_secrets=True)))
        if json.loads(json.dumps(shown)) != theirs:
            wrong.append(f"{message.name} v{version}: {shown!s:.500} is not Kafka's {theirs!s:.500}")
    return len(asked), wrong
