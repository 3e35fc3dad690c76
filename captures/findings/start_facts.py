"""Makes facts of a client's requests beside Produce and Fetch: metadata, coordinators, telemetry, features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.facts import Fact
from kproxy.captures.findings.said import Reading, Said, listed

MEMBER_ID_REQUIRED: Final = 79
NO_BROKERS: Final = 8
"""Error code BROKER_NOT_AVAILABLE; used for a Metadata response without brokers, which has no error code itself."""
LEVELS: Final = 100
"""Maximum number of features that a Features fact lists."""


def _metadata(said: Said) -> Iterator[Fact]:
    if not said.answered:
        return
    topics = said.request.get("topics")
    # In version 0 an empty array means all topics; later versions have a null array for this.
    every = topics is None or (said.at.version == 0 and not topics)
    found = listed(said.response, "topics")
    failed = sum(bool(one.get("errorCode")) for one in found)
    yield facts.MetadataRead(said.at, every, len(found), failed, said.size)
    yield facts.StartStep(said.at, "metadata", "", 0 if listed(said.response, "brokers") else NO_BROKERS)


def _find_coordinator(said: Said) -> Iterator[Fact]:
    if not said.answered:
        return
    found = listed(said.response, "coordinators") or [{**said.response, "key": said.request.get("key")}]
    for one in found:
        yield facts.StartStep(said.at, "coordinator", one.get("key") or "", one.get("errorCode") or 0)


def _join(said: Said) -> Iterator[Fact]:
    if said.answered and said.error != MEMBER_ID_REQUIRED:
        yield facts.StartStep(said.at, "join", said.request.get("groupId") or "", said.error)


def _producer_id(said: Said) -> Iterator[Fact]:
    if said.answered:
        yield facts.StartStep(said.at, "producer id", said.request.get("transactionalId") or "", said.error)


def _features(said: Said) -> Iterator[Fact]:
    finalized = {one.get("name"): one.get("maxVersionLevel", 0) for one in listed(said.response, "finalizedFeatures")}
    levels = tuple(
        (one.get("name") or "", one.get("maxVersion", 0), finalized.get(one.get("name"), 0))
        for one in listed(said.response, "supportedFeatures")[:LEVELS]
    )
    if levels and not said.error:
        yield facts.Features(said.at, levels)


def _subscribe(said: Said) -> Iterator[Fact]:
    if said.answered:
        metrics, most = len(listed(said.response, "requestedMetrics")), said.response.get("telemetryMaxBytes")
        yield facts.Telemetry(said.at, "subscribe", said.error, metrics, 0, most, terminating=False)


def _push(said: Said) -> Iterator[Fact]:
    if said.answered:
        size, terminating = len(said.request.get("metrics") or b""), bool(said.request.get("terminating"))
        yield facts.Telemetry(said.at, "push", said.error, None, size, None, terminating)


_STEP: Final = frozenset({facts.StartStep})
_TELEMETRY: Final = frozenset({facts.Telemetry})
READERS: Final = {
    3: Reading(_STEP | {facts.MetadataRead}, _metadata),
    10: Reading(_STEP, _find_coordinator),
    11: Reading(_STEP, _join),
    18: Reading(frozenset({facts.Features}), _features),
    22: Reading(_STEP, _producer_id),
    71: Reading(_TELEMETRY, _subscribe),
    72: Reading(_TELEMETRY, _push),
}
