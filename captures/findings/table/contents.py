"""Rules about unusual records."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="record.clock_skew",
        number=51,
        title="Timestamps of records are far from the time of sending",
        severity=Severity.WARN,
        confidence=Confidence.INFERRED,
        vantage="this producer's traffic",
        meaning="Samples of a producer's batches have timestamps in the future, in another unit, or long past. "
        "Retention, windows of streams and seeks by time use them: records of the future keep their segment alive, old "
        "ones are deleted at once.",
        text="{client} sends records to topic {topic} whose timestamps {what} (by {away}; samples: {count}, in line "
        "with the capture: {right})",
        cause="The clock of the producer's host is wrong, or the application gives the time of a future event.",
        guards=(
            "Several samples must be off, and more samples must be off than match the time of sending.",
            (
                "If all other producers are ahead by as much, and none matches the capture's time, the capture's "
                "clock is wrong."
            ),
            "Timestamps that are long past are an INFO: replays and copies have them.",
            "Topics with LogAppendTime do not count: the broker replaces the timestamps, as its response shows.",
        ),
        thresholds=(
            Threshold("samples", 3, "batches", "with such timestamps"),
            Threshold("ahead_ms", 300_000, "ms", "ahead of the time of sending"),
            Threshold("behind_ms", 86_400_000, "ms", "before the time of sending"),
        ),
        fixes=(
            Fix("client", "NTP on the host; leave the timestamp of ProducerRecord null",
                "NTP on the host; timestamp 0 in rd_kafka_producev", "the client then sets the time of sending"),
            Fix("client", "timestamps in milliseconds since 1970", "timestamps in milliseconds since 1970",
                "not in seconds, micro- or nanoseconds"),
            Fix("broker", None, None, "message.timestamp.after.max.ms refuses timestamps of the future "
                "(INVALID_TIMESTAMP; one hour from Kafka 4.0 on); message.timestamp.type=LogAppendTime ignores them"),
        ),
        verify="The newest timestamp of each batch is within minutes of the time of its request.",
        unknown=("Whether the clock of the capture is right: captures at brokers, or other producers, tell.",),
    ),
    Rule(
        id="record.size",
        number=52,
        title="Records of unusual size",
        severity=Severity.NOTE,
        confidence=Confidence.PROVEN,
        vantage="this producer's traffic",
        meaning="A producer sends very large records or keys, more headers than content, or batches that its codec "
        "does not shrink. Batching, compression and page caches then do little.",
        text="{client} sends {what} to topic {topic} ({example}; samples: {count})",
        cause="Large payloads, keys or headers.",
        guards=(
            "Headers, keys and codecs are judged over many records, not by single ones.",
            "Small compressed batches are not judged: their headers weigh more than what is saved.",
        ),
        thresholds=(
            Threshold("record", 524_288, "bytes", "in one record"),
            Threshold("headers", 256, "bytes", "of headers in a record, on average"),
            Threshold("share", 0.5, "of all bytes", "that are headers"),
            Threshold("key", 1_024, "bytes", "in a key, on average"),
            Threshold("records", 100, "records", "read, before averages count"),
            Threshold("ratio", 1.1, "times", "that compressed batches are smaller, at least"),
            Threshold("batches", 5, "batches", "of 4 KiB and more that are compressed, before the ratio counts"),
        ),
        fixes=(
            Fix("client", "store large payloads elsewhere and send their address, or split them",
                "store large payloads elsewhere and send their address, or split them",
                "brokers, consumers and replicas each hold whole records in memory"),
            Fix("client", "an id as key, few and short headers", "an id as key, few and short headers",
                "they are stored with each record"),
            Fix("client", "compression.type=none for what is compressed already",
                "compression.type=none for what is compressed already", "it saves CPU time on all sides"),
        ),
        verify="Samples of the topic are below the thresholds.",
        unknown=("max.message.bytes of the topic: `kafka-configs.sh --describe --topic TOPIC --all` tells.",),
    ),
    Rule(
        id="payload.schema",
        number=54,
        title="Values with and without schema ids in one topic",
        severity=Severity.NOTE,
        confidence=Confidence.STRONG,
        vantage="producers of the topic",
        meaning="Serializers of schema registries begin a value with a byte 0 and the id of its schema. Where some "
        "values of a topic have it and others do not, deserializers fail at the others. An id that appears only later "
        "is a new version of the schema.",
        text="Topic {topic} has values {what} ({example})",
        cause="Producers with different serializers write to the same topic.",
        guards=(
            "Null and empty values (tombstones) do not count.",
            "Only ids from 1 to 2^24 count, and values of eight bytes count as plain numbers.",
            "Values whose schema id is in a header do not count.",
            "If there are many different ids, the bytes are probably not ids.",
            "A new id is an INFO, because schemas evolve; it counts only in topics whose values had ids for a while.",
        ),
        thresholds=(
            Threshold("records", 20, "records", "with an id, and as many without"),
            Threshold("ids", 16, "ids", "of a topic, at most"),
            Threshold("settled", 100, "records", "with ids, before a new id is reported"),
            Threshold("settled_s", 60, "s", "for which the topic was seen, before a new id is reported"),
        ),
        fixes=(
            Fix("client", "the same value.serializer in all producers of the topic",
                "the same serializer in all producers of the topic", "deserializers expect one framing"),
            Fix("client", "errors.tolerance=all with a dead letter queue (Connect), an ErrorHandlingDeserializer "
                "(Spring)", None, "consumers then skip what they cannot read"),
        ),
        verify="All values of the topic begin with an id, or none.",
        unknown=("Whether the registry knows the ids: `kproxy export --format records --registry URL` tells.",),
    ),
)  # fmt: skip
