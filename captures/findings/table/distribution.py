"""Rules about records that are spread unevenly over the partitions of a topic."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="partition.hot",
        number=29,
        title="One partition gets most of a topic",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="all producers of the topic, or the brokers' side",
        meaning="One partition of a topic gets a multiple of what the others get. One broker and one consumer carry "
        "that load, whatever the number of partitions and consumers is.",
        text="{partition} got {share:.0%} of the bytes of topic {topic} within {seconds:.0f} s, {times:.1f} times "
        "the median of {partitions} partitions; {client} sent {part:.0%} of them",
        cause="Few keys have most of the records, or a producer names the partition itself.",
        guards=(
            ("Only partitions that received records are compared: a capture at one broker shows only its own "
            "partitions."),
            "Topics with few partitions, few bytes or few batches are not judged.",
            (
                "Producers without keys fill a batch of one partition at a time: over five minutes the partitions "
                "even out."
            ),
            "If the partition has less than 40 % of the topic's bytes, the finding is a NOTE.",
        ),
        thresholds=(
            Threshold("partitions", 8, "partitions", "with records, at least"),
            Threshold("window_s", 300, "s", "in which bytes are counted"),
            Threshold("bytes", 5_000_000, "bytes", "of the topic in that time, at least"),
            Threshold("batches", 20, "batches", "for each partition in that time, on average"),
            Threshold("times", 3, "times", "the median of all partitions"),
            Threshold("share", 0.4, "of the topic", "in one partition, for a WARN"),
        ),
        fixes=(
            Fix("client", "a key with more values (add a second field), or no key where order does not matter",
                "a key with more values (add a second field), or no key where order does not matter",
                "records of one key share a partition, however many partitions there are"),
            Fix("client", "keep the partition of ProducerRecord null", "RD_KAFKA_PARTITION_UA as partition",
                "a partition that the application names is taken as it is"),
        ),
        verify="Within five minutes no partition gets three times the median.",
        unknown=(
            "What producers outside this capture send: captures of all brokers have it.",
            "Load by consumers: a partition can be hot for reading alone.",
        ),
        under=("key.skew",),
    ),
    Rule(
        id="key.skew",
        number=30,
        title="One key has a large share of the records",
        severity=Severity.NOTE,
        confidence=Confidence.STRONG,
        vantage="producers of the topic",
        meaning="Samples of a topic's records have one key far more often than others. All its records go to one "
        "partition, and so to one consumer of each group.",
        text="{share:.0%} of the records of topic {topic} have the key {key} (partition {partition}; records read: "
        "{records})",
        cause="The key has a default or a very frequent value, such as a tenant, an empty id or a constant.",
        guards=(
            "Records without key, or with an empty key, do not count: producers spread them.",
            "Topics with one partition have nothing to balance.",
            "The share is a lower bound: keys are counted in bounded space (space-saving), from samples.",
        ),
        thresholds=(
            Threshold("records", 1000, "records", "sent, at least"),
            Threshold("read", 300, "records", "of these read in samples, at least"),
            Threshold("share", 0.2, "of the records", "with the same key"),
        ),
        fixes=(
            Fix("client", "a key with more values, or null for records that need no order",
                "a key with more values, or none for records that need no order",
                "order is needed within one entity only"),
        ),
        verify="No key has a fifth of the records that are read.",
        unknown=("Records that were not sampled: `kproxy export` has all of them.",),
    ),
    Rule(
        id="key.partitioner_mix",
        number=66,
        title="Producers of a topic partition by different functions",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="at least two producers of the topic",
        meaning="Two producers put keys into partitions by different functions: Java's murmur2, librdkafka's CRC32, "
        "Sarama's FNV-1a or Kafka 0.8's hash code. Records of one key then lie in two partitions: their order is lost, "
        "and joins and state by key miss records.",
        text="Topic {topic} (partitions: {partitions}): {first} chooses partitions by {one}, {second} by {other}; keys "
        "that both sent, to different partitions: {apart}",
        cause="Each client library has its own default partitioner.",
        guards=(
            (
                "Twenty keys of each producer are compared. With few partitions several functions may fit; all of "
                "them are considered."
            ),
            "A producer with one key in two partitions does not partition by key.",
            "A producer whose keys fit no known function is reported only if another one puts the same keys elsewhere.",
            "Once the topic has another number of partitions, the comparison begins anew.",
            "The finding is a NOTE until both producers send one key to different partitions: their keys may differ.",
        ),
        thresholds=(Threshold("keys", 20, "keys", "of each producer, at least"),),
        fixes=(
            Fix("client", None, "partitioner=murmur2_random (the default is consistent_random, which is CRC32)",
                "the same keys then go where the Java client puts them"),
            Fix("client", "partitioner.class with the other library's function", None,
                "if most producers are not Java: agree on one function for the topic"),
        ),
        verify="All producers of the topic fit the same function: `kproxy topics` names it for each.",
        unknown=(
            "Whether any reader needs all records of a key in one partition.",
            "Producers outside this capture.",
        ),
    ),
)  # fmt: skip
