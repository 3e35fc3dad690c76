"""Meanings of fields about topics, configurations, reassignments, quotas and log directories."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.meanings.row import EMPTY, NEGATIVE, NULL, POSITIVE, Row, Texts

CONFIG_RESOURCES: Final[Texts] = {
    2: "a topic", 4: "a broker", 8: "a broker's loggers", 16: "client metrics", 32: "a group",
}  # fmt: skip
CONFIG_SOURCES: Final[Texts] = {
    -1: "the broker does not say where the value comes from",
    0: "source of the value not known",
    1: "set on the topic",
    2: "set on this broker while it runs",
    3: "set for all brokers while they run",
    4: "from the broker's file",
    5: "Kafka's default",
    6: "set on a logger while the broker runs",
    7: "set for client metrics",
    8: "set on the group",
}
CONFIG_TYPES: Final[Texts] = {
    0: "type not known", 1: "boolean", 2: "string", 3: "int", 4: "short", 5: "long", 6: "double", 7: "list",
    8: "class", 9: "password",
}  # fmt: skip

ROWS: Final = (
    Row(
        "CreateTopicsRequest",
        "topics[].numPartitions",
        "How many partitions the topic gets.",
        {-1: "as many as the request assigns, else the broker's num.partitions"},
    ),
    Row(
        "CreateTopicsRequest",
        "topics[].replicationFactor",
        "How many copies each partition gets.",
        {-1: "as many as the request assigns, else the broker's default.replication.factor"},
    ),
    Row(
        "CreateTopicsRequest",
        "topics[].assignments",
        "Which brokers get which partition.",
        {EMPTY: "the controller spreads the partitions"},
    ),
    Row(
        "CreateTopicsResponse",
        "topics[].numPartitions",
        "How many partitions the topic has.",
        {-1: "number of partitions not known: not created, or the client may not see its configuration"},
    ),
    Row(
        "CreateTopicsResponse",
        "topics[].replicationFactor",
        "How many copies each partition has.",
        {-1: "number of copies not known: not created, or the client may not see its configuration"},
    ),
    Row(
        "CreateTopicsResponse",
        "topics[].configs",
        "The configuration that the topic got.",
        {NULL: "configuration not known, see topicConfigErrorCode"},
    ),
    Row(
        "DeleteTopicsRequest",
        "topics[].name",
        "The name of the topic to delete.",
        {NULL: "the topic to delete is named by its id"},
    ),
    Row(
        "CreatePartitionsRequest",
        "topics[].count",
        "New total number of the topic's partitions. Keys then go to other partitions than before.",
    ),
    Row(
        "CreatePartitionsRequest",
        "topics[].assignments",
        "Brokers of the new partitions.",
        {NULL: "the controller places the new partitions"},
    ),
    Row(
        "DeleteRecordsRequest",
        "topics[].partitions[].offset",
        "All records before this offset are deleted.",
        {-1: "all records up to the high watermark are deleted"},
    ),
    Row(
        "DeleteRecordsResponse",
        "topics[].partitions[].lowWatermark",
        "The first offset that any live replica still has.",
        {-1: "not deleted, see the error"},
    ),
    Row(
        "DescribeConfigsRequest",
        "resources[].configurationKeys",
        "Names of the settings to describe.",
        {NULL: "all settings"},
    ),
    Row(
        "DescribeConfigsRequest DescribeConfigsResponse AlterConfigsRequest AlterConfigsResponse "
        "IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse ListConfigResourcesResponse",
        "*.resourceType",
        "Kind of the resource that has the settings.",
        CONFIG_RESOURCES,
    ),
    Row("ListConfigResourcesRequest", "resourceTypes", "Kinds of resources to list.", {EMPTY: "every kind"}),
    Row(
        "DescribeConfigsRequest DescribeConfigsResponse AlterConfigsRequest IncrementalAlterConfigsRequest",
        "*.resourceName",
        "Name of the resource: the topic's name, the broker's id, and so on.",
        {EMPTY: "all brokers, if the resource is a broker"},
    ),
    Row(
        "DescribeConfigsResponse CreateTopicsResponse",
        "*.configSource",
        "Origin of the setting's value.",
        CONFIG_SOURCES,
    ),
    Row(
        "DescribeConfigsResponse",
        "*.source",
        "Origin of this value. The first value in the list is in force; if it is removed, the next one applies.",
        CONFIG_SOURCES,
    ),
    Row("DescribeConfigsResponse", "results[].configs[].configType", "Type of the setting's value.", CONFIG_TYPES),
    Row(
        "DescribeConfigsResponse CreateTopicsResponse",
        "*.isSensitive",
        "Whether the value is a secret, which brokers withhold.",
        {1: "a secret: brokers never send its value", 0: "not a secret"},
    ),
    Row(
        "DescribeConfigsResponse CreateTopicsResponse",
        "*.readOnly",
        "Whether the setting can be changed while brokers run.",
        {1: "changes only with a restart", 0: "may be changed while running"},
    ),
    Row(
        "DescribeConfigsResponse",
        "results[].configs[].isDefault",
        "Whether the value is the default.",
        {1: "the default", 0: "set explicitly"},
    ),
    Row(
        "DescribeConfigsResponse",
        "results[].configs[].value",
        "Value of the setting that is in force.",
        {NULL: "no value, or a withheld one"},
    ),
    Row(
        "AlterConfigsRequest",
        "resources[].configs",
        "The whole configuration: settings that are not named here go back to their defaults.",
    ),
    Row(
        "IncrementalAlterConfigsRequest",
        "resources[].configs[].configOperation",
        "Operation on the setting.",
        {0: "set", 1: "back to the default", 2: "append to the list", 3: "remove from the list"},
    ),
    Row(
        "ElectLeadersRequest",
        "electionType",
        "Which replicas may become leader.",
        {
            0: "the preferred replica, the first of the assignment",
            1: "any live replica, even one out of sync: records may be lost",
        },
    ),
    Row(
        "ElectLeadersRequest",
        "topicPartitions",
        "Partitions whose leader to elect.",
        {NULL: "all partitions that need an election"},
    ),
    Row(
        "AlterPartitionReassignmentsRequest",
        "topics[].partitions[].replicas",
        "Brokers that are to have a replica of the partition.",
        {NULL: "the reassignment is cancelled"},
    ),
    Row(
        "ListPartitionReassignmentsRequest",
        "topics",
        "Partitions whose reassignments to list.",
        {NULL: "all reassignments"},
    ),
    Row(
        "ListPartitionReassignmentsResponse",
        "topics[].partitions[].addingReplicas",
        "Brokers that still copy the partition.",
        {EMPTY: "no broker is being added"},
    ),
    Row(
        "ListPartitionReassignmentsResponse",
        "topics[].partitions[].removingReplicas",
        "Brokers that will drop their replica once the new replicas are in sync.",
        {EMPTY: "no broker is being removed"},
    ),
    Row(
        "DescribeLogDirsRequest",
        "topics",
        "Partitions whose log directories to describe.",
        {NULL: "all partitions of the broker"},
    ),
    Row(
        "DescribeLogDirsResponse",
        "results[].topics[].partitions[].isFutureKey",
        "Whether this is a copy that is being moved to this directory.",
        {1: "a copy that will replace the log when it has caught up", 0: "the log in use"},
    ),
    Row(
        "DescribeLogDirsResponse",
        "results[].topics[].partitions[].offsetLag",
        "Number of offsets by which the log is behind the high watermark, or by which a moving copy is behind the log.",
        {0: "nothing missing"},
    ),
    Row("DescribeLogDirsResponse", "results[].totalBytes", "Size of the volume.", {-1: "volume size not known"}),
    Row("DescribeLogDirsResponse", "results[].usableBytes", "Free space of the volume.", {-1: "free space not known"}),
    Row(
        "DescribeLogDirsResponse",
        "results[].isCordoned",
        "Whether the directory gets no new partitions.",
        {1: "gets no new partitions", 0: "takes new partitions"},
    ),
    Row(
        "DescribeClientQuotasRequest",
        "components[].matchType",
        "Which users, client ids or addresses match.",
        {0: "quotas of exactly this name", 1: "the default quota", 2: "quotas of any name"},
    ),
    Row(
        "DescribeClientQuotasRequest",
        "strict",
        "Whether quotas match that name more entities than the filter.",
        {1: "only quotas for exactly these entities", 0: "quotas for more entities match as well"},
    ),
    Row(
        "DescribeClientQuotasResponse AlterClientQuotasRequest AlterClientQuotasResponse",
        "*.entityName",
        "Name of the user, client id or address.",
        {NULL: "the default for all without a quota of their own"},
    ),
    Row(
        "AlterClientQuotasRequest",
        "entries[].ops[].remove",
        "Whether the quota is removed.",
        {1: "the quota is removed", 0: "the quota is set"},
    ),
    Row(
        "UpdateFeaturesRequest",
        "featureUpdates[].maxVersionLevel",
        "Level of the feature that the cluster is to have.",
        {0: "the feature is switched off", NEGATIVE: "the feature is removed"},
    ),
    Row(
        "UpdateFeaturesRequest",
        "featureUpdates[].upgradeType",
        "Whether the level may go up or down.",
        {1: "up only", 2: "down, if no metadata is lost", 3: "down, even if metadata is lost"},
    ),
    Row(
        "DescribeClusterRequest DescribeClusterResponse",
        "endpointType",
        "Which nodes are listed.",
        {1: "brokers", 2: "controllers"},
    ),
    Row(
        "DescribeClusterRequest",
        "includeFencedBrokers",
        "Whether brokers that may not serve yet are listed.",
        {1: "fenced brokers too", 0: "live brokers only"},
    ),
    Row(
        "DescribeClusterResponse",
        "brokers[].isFenced",
        "Whether the broker is fenced: registered, but not serving clients.",
        {1: "registered but not serving", 0: "serving"},
    ),
    Row(
        "DescribeClusterResponse",
        "controllerId",
        "The controller; a KRaft broker names any live broker instead.",
        {-1: "controller not known"},
    ),
    Row(
        "GetTelemetrySubscriptionsRequest",
        "clientInstanceId",
        "The client's id for its metrics (KIP-714).",
        {bytes(16): "no id yet: the broker assigns one"},
    ),
    Row(
        "GetTelemetrySubscriptionsResponse",
        "requestedMetrics",
        "Prefixes of the names of wanted metrics.",
        {EMPTY: "no metrics are wanted"},
    ),
    Row(
        "GetTelemetrySubscriptionsResponse",
        "requestedMetrics[]",
        "Prefix of the names of wanted metrics.",
        {EMPTY: "all metrics are wanted"},
    ),
    Row("GetTelemetrySubscriptionsResponse", "pushIntervalMs", "How often the client is to push."),
    Row(
        "GetTelemetrySubscriptionsResponse",
        "deltaTemporality",
        "How counters are reported.",
        {1: "counters since the last push", 0: "counters since the start"},
    ),
    Row(
        "PushTelemetryRequest",
        "terminating",
        "Whether this is the client's last push.",
        {1: "the client's last push", 0: "more pushes follow"},
    ),
    Row("DeleteGroupsRequest", "groupsNames", "Groups to delete; they must have no members."),
    Row("OffsetDeleteRequest", "topics", "Offsets to delete; no member may be subscribed to the topics."),
    Row("DescribeUserScramCredentialsRequest", "users", "Users whose credentials to describe.", {NULL: "all users"}),
    Row(
        "UnregisterBrokerRequest",
        "brokerId",
        "Broker to remove from the cluster's metadata; it must be down for good.",
        {POSITIVE: "this broker is removed from the cluster's metadata"},
    ),
)
