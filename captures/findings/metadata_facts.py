"""Makes facts of what brokers tell clients about the cluster in ApiVersions, Metadata and FindCoordinator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.facts import Fact
from kproxy.captures.findings.said import Reading, Said, known, listed
from kproxy.captures.index.labels import id_text, topic_id
from kproxy.decoders.schema import api_keys

_COORDINATORS: Final = {0: "group", 1: "transaction", 2: "share"}


def _api_versions(said: Said) -> Iterator[Fact]:
    software = f"{said.request.get('clientSoftwareName') or ''} {said.request.get('clientSoftwareVersion') or ''}"
    ranges = tuple(
        (one.get("apiKey", -1), one.get("minVersion", 0), one.get("maxVersion", -1))
        for one in listed(said.response, "apiKeys")
    )
    yield facts.Offered(said.at, said.error, software.strip(), ranges)


def _metadata(said: Said) -> Iterator[Fact]:
    automatic = bool(said.request.get("allowAutoTopicCreation", True)) and said.request.get("topics") is not None
    brokers, topics = listed(said.response, "brokers"), listed(said.response, "topics")
    if said.answered:
        controller = known(said.response.get("controllerId"))
        yield facts.ClusterView(said.at, said.response.get("clusterId"), len(brokers), len(topics), controller)
    for one in brokers:
        yield facts.Broker(said.at, one.get("nodeId", -1), one.get("host") or "", one.get("port", 0), one.get("rack"))
    for topic in topics:
        name, partitions = said.topic(topic), listed(topic, "partitions")
        raw = topic_id(topic.get("topicId"))
        identity = None if raw is None else id_text(raw)
        yield facts.TopicView(said.at, name, topic.get("errorCode", 0), len(partitions), automatic, identity)
        for one in partitions:
            yield facts.PartitionView(
                said.at, name, one.get("partitionIndex", 0), one.get("errorCode", 0), known(one.get("leaderId")),
                known(one.get("leaderEpoch")), tuple(listed(one, "replicaNodes")), tuple(listed(one, "isrNodes")),
                tuple(listed(one, "offlineReplicas")),
            )  # fmt: skip


def _find_coordinator(said: Said) -> Iterator[Fact]:
    kind = _COORDINATORS.get(said.request.get("keyType", 0), "")
    found = listed(said.response, "coordinators") or [{**said.response, "key": said.request.get("key")}]
    for one in found:
        address = f"{one.get('host') or ''}:{one.get('port', 0)}"
        yield facts.Coordinator(
            said.at, kind, one.get("key") or "", known(one.get("nodeId")), address, one.get("errorCode") or 0
        )


READERS: Final = {
    api_keys.METADATA: Reading(
        frozenset({facts.Broker, facts.ClusterView, facts.TopicView, facts.PartitionView}), _metadata
    ),
    10: Reading(frozenset({facts.Coordinator}), _find_coordinator),
    api_keys.API_VERSIONS: Reading(frozenset({facts.Offered}), _api_versions),
}
