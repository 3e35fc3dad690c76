"""Makes facts of a client's requests beside Produce and Fetch: metadata, coordinators, telemetry, features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.decoded_exchange import DecodedExchange, Reading, listed
from kproxy.captures.findings.facts import Fact

MEMBER_ID_REQUIRED: Final = 79
NO_BROKERS: Final = 8
"""Error code BROKER_NOT_AVAILABLE; used for a Metadata response without brokers, which has no error code itself."""
LEVELS: Final = 100
"""Maximum number of features that a Features fact lists."""


def _metadata(decoded: DecodedExchange) -> Iterator[Fact]:
    if not decoded.answered:
        return
    topics = decoded.request.get("topics")
    # In version 0 an empty array means all topics; later versions have a null array for this.
    every = topics is None or (decoded.at.version == 0 and not topics)
    found = listed(decoded.response, "topics")
    failed = sum(bool(one.get("errorCode")) for one in found)
    yield facts.MetadataRead(decoded.at, every, len(found), failed, decoded.size)
    yield facts.StartStep(decoded.at, "metadata", "", 0 if listed(decoded.response, "brokers") else NO_BROKERS)


def _find_coordinator(decoded: DecodedExchange) -> Iterator[Fact]:
    if not decoded.answered:
        return
    found = listed(decoded.response, "coordinators") or [{**decoded.response, "key": decoded.request.get("key")}]
    for one in found:
        yield facts.StartStep(decoded.at, "coordinator", one.get("key") or "", one.get("errorCode") or 0)


def _join(decoded: DecodedExchange) -> Iterator[Fact]:
    if decoded.answered and decoded.error != MEMBER_ID_REQUIRED:
        yield facts.StartStep(decoded.at, "join", decoded.request.get("groupId") or "", decoded.error)


def _producer_id(decoded: DecodedExchange) -> Iterator[Fact]:
    if decoded.answered:
        yield facts.StartStep(decoded.at, "producer id", decoded.request.get("transactionalId") or "", decoded.error)


def _features(decoded: DecodedExchange) -> Iterator[Fact]:
    finalized = {
        one.get("name"): one.get("maxVersionLevel", 0) for one in listed(decoded.response, "finalizedFeatures")
    }
    levels = tuple(
        (one.get("name") or "", one.get("maxVersion", 0), finalized.get(one.get("name"), 0))
        for one in listed(decoded.response, "supportedFeatures")[:LEVELS]
    )
    if levels and not decoded.error:
        yield facts.Features(decoded.at, levels)


def _subscribe(decoded: DecodedExchange) -> Iterator[Fact]:
    if decoded.answered:
        metrics, most = len(listed(decoded.response, "requestedMetrics")), decoded.response.get("telemetryMaxBytes")
        yield facts.Telemetry(decoded.at, "subscribe", decoded.error, metrics, 0, most, terminating=False)


def _push(decoded: DecodedExchange) -> Iterator[Fact]:
    if decoded.answered:
        size, terminating = len(decoded.request.get("metrics") or b""), bool(decoded.request.get("terminating"))
        yield facts.Telemetry(decoded.at, "push", decoded.error, None, size, None, terminating)


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
