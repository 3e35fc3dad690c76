"""Makes facts of what brokers tell clients about the cluster in ApiVersions, Metadata and FindCoordinator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.decoded_exchange import DecodedExchange, Reading, known, listed
from kproxy.captures.findings.facts import Fact
from kproxy.captures.index.labels import id_text, topic_id
from kproxy.decoders.schema import api_keys

_COORDINATORS: Final = {0: "group", 1: "transaction", 2: "share"}


def _api_versions(decoded: DecodedExchange) -> Iterator[Fact]:
    software = f"{decoded.request.get('clientSoftwareName') or ''} {decoded.request.get('clientSoftwareVersion') or ''}"
    ranges = tuple(
        (one.get("apiKey", -1), one.get("minVersion", 0), one.get("maxVersion", -1))
        for one in listed(decoded.response, "apiKeys")
    )
    yield facts.Offered(decoded.at, decoded.error, software.strip(), ranges)


def _metadata(decoded: DecodedExchange) -> Iterator[Fact]:
    automatic = bool(decoded.request.get("allowAutoTopicCreation", True)) and decoded.request.get("topics") is not None
    brokers, topics = listed(decoded.response, "brokers"), listed(decoded.response, "topics")
    if decoded.answered:
        controller = known(decoded.response.get("controllerId"))
        yield facts.ClusterView(decoded.at, decoded.response.get("clusterId"), len(brokers), len(topics), controller)
    for one in brokers:
        yield facts.Broker(
            decoded.at, one.get("nodeId", -1), one.get("host") or "", one.get("port", 0), one.get("rack")
        )
    for topic in topics:
        name, partitions = decoded.topic(topic), listed(topic, "partitions")
        raw = topic_id(topic.get("topicId"))
        identity = None if raw is None else id_text(raw)
        yield facts.TopicView(decoded.at, name, topic.get("errorCode", 0), len(partitions), automatic, identity)
        for one in partitions:
            yield facts.PartitionView(
                decoded.at, name, one.get("partitionIndex", 0), one.get("errorCode", 0), known(one.get("leaderId")),
                known(one.get("leaderEpoch")), tuple(listed(one, "replicaNodes")), tuple(listed(one, "isrNodes")),
                tuple(listed(one, "offlineReplicas")),
            )  # fmt: skip


def _find_coordinator(decoded: DecodedExchange) -> Iterator[Fact]:
    kind = _COORDINATORS.get(decoded.request.get("keyType", 0), "")
    found = listed(decoded.response, "coordinators") or [{**decoded.response, "key": decoded.request.get("key")}]
    for one in found:
        address = f"{one.get('host') or ''}:{one.get('port', 0)}"
        yield facts.Coordinator(
            decoded.at, kind, one.get("key") or "", known(one.get("nodeId")), address, one.get("errorCode") or 0
        )


READERS: Final = {
    api_keys.METADATA: Reading(
        frozenset({facts.Broker, facts.ClusterView, facts.TopicView, facts.PartitionView}), _metadata
    ),
    10: Reading(frozenset({facts.Coordinator}), _find_coordinator),
    api_keys.API_VERSIONS: Reading(frozenset({facts.Offered}), _api_versions),
}
