"""Every message of both releases is defined, with the names that Kafka's own classes print."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kproxy.decoders.schema import Definitions, Field, Message, Versions, definitions

DATA = Path(__file__).parents[2] / "data"

SIX = {
    ("TxnOffsetCommitRequest", 3),
    ("TxnOffsetCommitRequest", 4),
    ("VoteRequest", 0),
    ("VoteRequest", 1),
    ("ListConfigResourcesResponse", 0),
    ("ReadShareGroupStateSummaryResponse", 0),
}

DATA_MESSAGES = {
    "AbortedTxn",
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "ControlRecordTypeSchema",
    "DefaultPrincipalData",
    "EndTxnMarker",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "SubscriptionInfoData",
    "VotersRecord",
}


def versions_of(message: Message) -> range:
    return range(message.versions.low, message.versions.high + 1)


@pytest.fixture(scope="module")
def newest() -> Definitions:
    return definitions()


def test_every_pair_of_both_releases_has_a_request_and_a_response(newest: Definitions) -> None:
    assert len(newest.pairs("4.4.0")) == 309
    assert len(newest.pairs("3.9.2")) == 323
    assert set(newest.pairs()) == {*newest.pairs("4.4"), *newest.pairs("3.9")}
    for release in (None, "3.9"):
        eyes = definitions(release)
        for key, version in eyes.pairs():
            request, response = eyes.request(key, version), eyes.response(key, version)
            assert request is not None
            assert response is not None
            assert (request.kind, response.kind) == ("request", "response")
            assert version in request.versions
            assert version in response.versions
            assert request.api_key == response.api_key == key


def test_versions_are_closed_ranges_without_holes(newest: Definitions) -> None:
    for key in newest.apis:
        known = newest.versions(key)
        assert [(key, version) for version in range(known.low, known.high + 1)] == [
            pair for pair in newest.pairs() if pair[0] == key
        ]


def test_the_newest_release_rules_and_an_older_layout_is_kept_only_where_it_differs(newest: Definitions) -> None:
    named = {
        (message.name, version)
        for message in newest.messages()
        for version in versions_of(message)
        if newest.older(message.name, version) is not None
    }
    # an older definition can be found by its own name too
    assert named - {("ListClientMetricsResourcesResponse", 0)} == {*SIX, ("ShareGroupMetadataValue", 0)}
    for name, version in SIX:
        message, older = newest.message(name, version), newest.older(name, version)
        assert message is not None
        assert older is not None
        assert (message.release, older.release) == ("4.4.0", "3.9.2")
        assert message.api_key == older.api_key
        assert message.fields != older.fields


def test_an_older_release_reads_with_its_own_names_and_knows_the_rest_too() -> None:
    older, newest = definitions("3.9"), definitions()
    request, response = older.request(74, 0), older.response(74, 0)
    assert request is not None
    assert response is not None
    assert (request.name, response.name) == ("ListClientMetricsResourcesRequest", "ListClientMetricsResourcesResponse")
    assert older.apis[74].name == "ListClientMetricsResources"
    assert newest.apis[74].name == "ListConfigResources"
    for key, version in older.pairs("3.9"):
        for side in (older.request(key, version), older.response(key, version)):
            assert side is not None
            assert older.older(side.name, version) is None
    vote = older.request(52, 1)
    assert vote is not None
    assert vote == newest.older("VoteRequest", 1)
    # Fetch 18 was added after 3.9
    assert older.request(1, 18) is newest.request(1, 18) is not None


def test_a_definition_serves_its_valid_versions_only(newest: Definitions) -> None:
    releases = {version: newest.request(1, version) for version in range(19)}
    assert [None if message is None else message.release for message in releases.values()] == (
        ["3.9.2"] * 4 + ["4.4.0"] * 15
    )
    assert newest.request(1, 19) is None
    assert newest.request(4, 0) is not None
    assert newest.request(999, 0) is None
    assert newest.message("NoSuchRequest", 0) is None


def test_headers_data_and_control_records_are_there(newest: Definitions) -> None:
    names = {message.name for message in newest.messages() if message.kind == "data"}
    assert names == DATA_MESSAGES
    for version, release in ((0, "3.9.2"), (1, "4.4.0"), (2, "4.4.0")):
        header = newest.message("RequestHeader", version)
        assert header is not None
        assert header.release == release
    assert [newest.message("ResponseHeader", version) is not None for version in range(3)] == [True, True, False]
    header = newest.message("RequestHeader", 2)
    assert header is not None
    (client_id,) = (field for field in header.fields if field.name == "clientId")
    assert client_id.flexible is not None
    assert not client_id.flexible


def walk(fields: tuple[Field, ...]) -> list[Field]:
    return [each for field in fields for each in (field, *walk(field.struct.fields if field.struct else ()))]


def test_fields_hold_what_a_decoder_relies_on(newest: Definitions) -> None:
    primitives = {
        *("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64"),
        *("uuid", "string", "bytes", "records"),
    }
    seen = 0
    for message in newest.messages():
        assert message.versions
        for field in walk(message.fields):
            seen += 1
            assert (field.struct is None) == (field.type in primitives)
            assert field.name[0].islower()
            assert bool(field.tagged) == (field.tag is not None)
            if field.default is not None and field.default != "null" and field.struct is None and not field.array:
                kind = {"bool": bool, "string": str, "uuid": str, "float64": str}.get(field.type, int)
                assert type(field.default) is kind, (message.name, field)
    assert seen > 1675


def test_fields_match_the_definition() -> None:
    message = definitions().request(1, 13)
    assert message is not None
    assert (message.name, message.flexible, message.listeners) == (
        "FetchRequest",
        Versions.parse("12+"),
        ("broker", "controller"),
    )
    cluster_id = message.fields[0]
    assert (cluster_id.name, cluster_id.type, cluster_id.default, cluster_id.tag, cluster_id.ignorable) == (
        "clusterId",
        "string",
        "null",
        0,
        True,
    )
    assert cluster_id.versions == cluster_id.nullable == cluster_id.tagged == Versions.parse("12+")
    (topics,) = (field for field in message.fields if field.name == "topics")
    assert topics.array
    assert topics.struct is not None
    assert topics.struct.name == topics.type == "FetchTopic"


def test_shared_structs_are_resolved_within_shared_structs() -> None:
    message = definitions().response(77, 0)
    assert message is not None
    assert "topicPartitions" in [field.name for field in walk(message.fields)]


@pytest.mark.parametrize("name", ["3.9", "3.9.2"])
def test_release_names(name: str) -> None:
    assert definitions(name) is definitions("3.9.2")
    assert definitions(name).release == "3.9.2"


def test_the_newest_release_is_the_default() -> None:
    assert definitions() is definitions("4.4") is definitions("4.4.0")


@pytest.mark.parametrize("name", ["", "4", "4.4.", "3.8", "4.4.1", "latest"])
def test_an_unknown_release_is_an_error_that_names_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"known are 4\.4\.0, 3\.9\.2"):
        definitions(name)


def test_the_nearest_version(newest: Definitions) -> None:
    assert [newest.nearest(1, version) for version in (-3, 0, 18, 19, 32767)] == [0, 0, 18, 18, 18]
    with pytest.raises(KeyError):
        newest.nearest(999, 0)
    assert not newest.versions(999)
    assert newest.versions(0) == Versions(0, 13)


def test_header_versions(newest: Definitions) -> None:
    assert [newest.request_header_version(7, version) for version in range(4)] == [0, 1, 1, 2]
    assert [newest.response_header_version(7, version) for version in range(4)] == [0, 0, 0, 1]
    assert [newest.request_header_version(18, version) for version in range(6)] == [1, 1, 1, 2, 2, 2]
    assert {newest.response_header_version(18, version) for version in range(20)} == {0}
    assert (newest.request_header_version(1, 11), newest.request_header_version(1, 12)) == (1, 2)
    assert (newest.response_header_version(1, 11), newest.response_header_version(1, 12)) == (0, 1)
    # SaslHandshake has no flexible version
    assert newest.request_header_version(17, 1) == 1
    assert (newest.request_header_version(1, 99), newest.response_header_version(1, 99)) == (2, 1)
    assert (newest.request_header_version(999, 3), newest.response_header_version(999, 3)) == (1, 0)


def misfits(values: dict[str, Any], fields: tuple[Field, ...], version: int) -> list[str]:
    """Fields of a body printed by Kafka's classes whose names or nulls do not fit the definition."""
    wanted = {field.name: field for field in fields if version in field.versions}
    found = [name for name in values if name not in wanted and not name.endswith("SizeInBytes")]
    for name, field in wanted.items():
        if name not in values:
            if version not in field.tagged and field.type != "records":
                found.append(f"-{name}")
            continue
        value = values[name]
        if value is None:
            found += [] if version in field.nullable else [f"{name} is null"]
        elif field.struct is not None:
            for inner in value if field.array else [value]:
                found += misfits(inner, field.struct.fields, version)
    return found


@pytest.mark.parametrize(
    ("release", "file"),
    [
        (None, "golden/golden-4.4.0"),
        ("3.9", "golden/golden-3.9.2"),
        (None, "captures/kafka-0.8.2.2"),
        (None, "captures/kafka-1.1.1"),
        (None, "captures/kafka-4.4.0-librdkafka"),
    ],
)
def test_names_and_nulls_are_those_that_kafka_prints(release: str | None, file: str) -> None:
    eyes = definitions(release)
    frames = 0
    with gzip.open(DATA / f"{file}.jsonl.gz") as lines:
        for line in lines:
            frame = json.loads(line)
            key, version = frame["api_key"], frame["api_version"]
            message = eyes.request(key, version) if frame["kind"] == "request" else eyes.response(key, version)
            assert message is not None
            assert message.name == frame["name"]
            assert misfits(frame["body"], message.fields, version) == []
            frames += 1
    assert frames > 200


def test_loading_parses_no_message_before_it_is_asked_for() -> None:
    script = (
        "from kproxy.decoders import schema\n"
        "from kproxy.decoders.schema import store\n"
        "seen = []\n"
        "inner = store.message\n"
        "store.message = lambda line: seen.append(1) or inner(line)\n"
        "found = schema.definitions()\n"
        "assert not seen\n"
        "assert found.request(1, 12).name == 'FetchRequest' and len(seen) == 1\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_record_types_of_internal_topics_are_no_api_keys(newest: Definitions) -> None:
    records = [message for message in newest.messages() if message.topic is not None]
    assert {(message.topic, message.kind) for message in records} == {
        *((topic, "coordinator-key") for topic in ("__consumer_offsets", "__transaction_state", "__share_group_state")),
        *(
            (topic, "coordinator-value")
            for topic in ("__consumer_offsets", "__transaction_state", "__share_group_state")
        ),
        *((topic, "metadata") for topic in ("__cluster_metadata", "__remote_log_metadata")),
    }
    assert len(records) == 84
    for message in records:
        assert message.api_key is None
        assert message.record_type is not None
        assert message.topic is not None
        for version in versions_of(message):
            found = newest.record(message.topic, message.kind, message.record_type, version)
            assert found in {message, newest.message(message.name, version)}
    # both releases number the record types of 3.9's share groups alike, except one that 4 dropped
    dropped = newest.record("__consumer_offsets", "coordinator-key", 9, 0)
    assert dropped is not None
    assert (dropped.name, dropped.release) == ("ShareGroupPartitionMetadataKey", "3.9.2")
    assert newest.record("__consumer_offsets", "coordinator-value", 9, 1) is None
    assert newest.record("__consumer_offsets", "metadata", 3, 0) is None
    legacy = newest.record("__consumer_offsets", "coordinator-key", 0, 0)
    assert legacy is not None
    assert legacy.name == "LegacyOffsetCommitKey"
