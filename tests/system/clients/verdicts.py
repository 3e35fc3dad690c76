# The package marks none of its admin names as exported.
# mypy: disable-error-code="attr-defined"
"""Which error librdkafka reports to its application.

    python -m tests.system.clients.verdicts BOOTSTRAP TOPIC

Takes lines "client id, API" with a tab between them, calls what sends a request of this API, and answers each with
"client id, name of the error" (NONE without one); none for an API that the client does not use.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

from confluent_kafka import (
    Consumer,
    ElectionType,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
)

SECONDS = 6.0
"""Time after which a call is given up: those of versions that the client does not use."""
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]

TIMEOUT = "TIMEOUT"

Call = Callable[[dict[str, Any], str], KafkaError | None]
"""From a client's settings and a topic to the error that the client reports."""


def verdict(api: str, settings: dict[str, Any], topic: str) -> str:
    try:
        error = CALLS[api](settings, topic)
    except KafkaException as raised:
        error = raised.args[0]
    except TimeoutError:
        return TIMEOUT
    return "NONE" if error is None else str(error.name())


_KEPT: list[AdminClient] = []
"""Clients with calls that may go on: without its client a future never ends, or librdkafka aborts the process."""


def _admin(call: Callable[[AdminClient, str], Any]) -> Call:
    """A call whose future, or whose first one of several, fails, has a result with an error or one of the errors."""

    def run(settings: dict[str, Any], topic: str) -> KafkaError | None:
        admin = AdminClient(settings)
        _KEPT.append(admin)
        given = call(admin, topic)
        future = next(iter(given.values())) if isinstance(given, dict) else given
        result = future.result(SECONDS)
        found = next(iter(result.values())) if isinstance(result, dict) and result else result
        errors = getattr(found, "errors", None)
        error = errors[0] if errors else getattr(found, "error", found)
        if isinstance(error, KafkaException):
            error = error.args[0]
        return error if isinstance(error, KafkaError) else None

    return run


def _consumer(call: Callable[[Consumer, TopicPartition], Any]) -> Call:
    """A call of a consumer of one partition that raises, or returns partitions or a message with an error."""

    def run(settings: dict[str, Any], topic: str) -> KafkaError | None:
        place = TopicPartition(topic, 0, 0)
        with closing(Consumer({**settings, "group.id": settings["client.id"]})) as consumer:
            consumer.assign([place])
            result = call(consumer, place)
            first = result[0] if isinstance(result, list) else result
            error = getattr(first, "error", None)
            return error() if callable(error) else error

    return run


def _member(settings: dict[str, Any], topic: str) -> KafkaError | None:
    with closing(Consumer({**settings, "group.id": settings["client.id"]})) as consumer:
        consumer.subscribe([topic])
        message = consumer.poll(SECONDS)
        return None if message is None else message.error()


def _modern_member(settings: dict[str, Any], topic: str) -> KafkaError | None:
    return _member({**settings, "group.protocol": "consumer"}, topic)


def _produced(settings: dict[str, Any], topic: str) -> KafkaError | None:
    errors: list[KafkaError | None] = []
    with closing(Producer({**settings, "message.timeout.ms": SECONDS * 1000})) as producer:
        producer.produce(topic, b"v", partition=0, on_delivery=lambda error, _: errors.append(error))
        producer.flush(SECONDS)
    return errors[0]


def _metadata(settings: dict[str, Any], topic: str) -> KafkaError | None:
    error: KafkaError | None = AdminClient(settings).list_topics(topic, SECONDS).topics[topic].error
    return error


def _transaction(settings: dict[str, Any], topic: str, *, offsets: bool = False) -> None:
    own = {"transactional.id": settings["client.id"], "transaction.timeout.ms": SECONDS * 1000}
    producer = Producer({**settings, **own})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    if offsets:
        with closing(Consumer({**settings, "client.id": "reader", "group.id": settings["client.id"]})) as consumer:
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], metadata, SECONDS)
    else:
        producer.produce(topic, b"v", partition=0)
    producer.commit_transaction(SECONDS)


def _transaction_of_offsets(settings: dict[str, Any], topic: str) -> None:
    _transaction(settings, topic, offsets=True)


def _binding(topic: str) -> AclBinding:
    literal, user = ResourcePatternType.LITERAL, "User:a"
    return AclBinding(ResourceType.TOPIC, topic, literal, user, "*", AclOperation.READ, AclPermissionType.ALLOW)


def _filter(topic: str) -> AclBindingFilter:
    literal, any_one = ResourcePatternType.LITERAL, AclOperation.ANY
    return AclBindingFilter(ResourceType.TOPIC, topic, literal, "User:a", "*", any_one, AclPermissionType.ANY)


def _changed(topic: str) -> ConfigResource:
    setting = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[setting])


CALLS: dict[str, Call] = {
    "Produce": _produced,
    "Fetch": _consumer(lambda consumer, _: consumer.poll(SECONDS)),
    "ListOffsets": _admin(lambda admin, topic: admin.list_offsets({TopicPartition(topic, 0): LATEST})),
    "Metadata": _metadata,
    "OffsetCommit": _consumer(lambda consumer, place: consumer.commit(offsets=[place], asynchronous=False)),
    "OffsetFetch": _consumer(lambda consumer, place: consumer.committed([place], SECONDS)),
    "FindCoordinator": _member,
    "JoinGroup": _member,
    "DescribeGroups": _admin(lambda admin, _: admin.describe_consumer_groups(["g"])),
    "ListGroups": _admin(lambda admin, _: admin.list_consumer_groups()),
    "CreateTopics": _admin(lambda admin, _: admin.create_topics([NewTopic("n", 1, 1)])),
    "DeleteTopics": _admin(lambda admin, topic: admin.delete_topics([topic])),
    "DeleteRecords": _admin(lambda admin, topic: admin.delete_records([TopicPartition(topic, 0, 0)])),
    "InitProducerId": _transaction,
    "AddPartitionsToTxn": _transaction,
    "AddOffsetsToTxn": _transaction_of_offsets,
    "EndTxn": _transaction,
    "TxnOffsetCommit": _transaction_of_offsets,
    "CreateAcls": _admin(lambda admin, topic: admin.create_acls([_binding(topic)])),
    "DeleteAcls": _admin(lambda admin, topic: admin.delete_acls([_filter(topic)])),
    "DescribeConfigs": _admin(lambda admin, topic: admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])),
    "AlterConfigs": _admin(lambda admin, topic: admin.alter_configs([ConfigResource(ResourceType.TOPIC, topic)])),
    "CreatePartitions": _admin(lambda admin, topic: admin.create_partitions([NewPartitions(topic, 9)])),
    "DeleteGroups": _admin(lambda admin, _: admin.delete_consumer_groups(["g"])),
    "ElectLeaders": _admin(
        lambda admin, topic: admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)])
    ),
    "IncrementalAlterConfigs": _admin(lambda admin, topic: admin.incremental_alter_configs([_changed(topic)])),
    "AlterUserScramCredentials": _admin(
        lambda admin, _: admin.alter_user_scram_credentials(
            [UserScramCredentialDeletion("a", ScramMechanism.SCRAM_SHA_256)]
        )
    ),
    "ConsumerGroupHeartbeat": _modern_member,
}
"""By the API whose error they report.

SyncGroup, Heartbeat and LeaveGroup have none, because the client handles their errors itself; DescribeAcls has none,
because the client reports success even for a broker's own SECURITY_DISABLED. DescribeUserScramCredentials is left out:
librdkafka 2.16.0 frees memory that it does not own when the answer's own error code is set, whatever else is in it.
"""


def main(bootstrap: str, topic: str) -> None:
    for line in sys.stdin:
        name, api = line.rstrip("\n").split("\t")
        if api in CALLS:
            settings = {"bootstrap.servers": bootstrap, "client.id": name, "log_level": 0}
            print(name, verdict(api, settings, topic), sep="\t", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # without ending the clients that are kept
