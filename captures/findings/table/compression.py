"""Rules about the compression of batches."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="producer.uncompressed",
        number=27,
        title="Producer sends compressible records uncompressed",
        severity=Severity.NOTE,
        confidence=Confidence.STRONG,
        vantage="this producer's traffic",
        meaning="A producer sends much to a topic in batches without compression, and samples of its records become "
        "clearly smaller with LZ4. The difference burdens the network, the brokers' disks and page caches, and all "
        "consumers.",
        text="{client} sends topic {topic} uncompressed ({bytes} bytes in a minute); LZ4 would make it {ratio:.1f} "
        "times smaller (bytes that could be saved so far: {wasted})",
        cause="compression.type is none, the default of all clients.",
        guards=(
            "Records that are compressed already (images, archives, encrypted payloads) do not shrink: samples tell.",
            "Batches are compressed one by one: small ones, and their headers, shrink less or not at all.",
            "A client that compresses any batch of the topic is not reported.",
        ),
        thresholds=(
            Threshold("bytes", 1_000_000, "bytes", "of a client and topic in a minute"),
            Threshold("ratio", 1.5, "times", "that samples shrink, at least"),
        ),
        fixes=(
            Fix("client", "compression.type=lz4 or zstd, with linger.ms and batch.size for larger batches",
                "compression.type=lz4 or zstd, with linger.ms and batch.size for larger batches",
                "batches are compressed as a whole: larger ones shrink further"),
            Fix("client", None, "librdkafka 2.11.1 or newer",
                "before, it compresses nothing if the broker offers no Produce below version 3"),
            Fix("broker", None, None, "a proxy in front of Kafka 4 must offer Produce from version 0, as brokers do "
                "(KAFKA-18659)"),
        ),
        verify="The client's batches name a codec, and it sends fewer bytes a minute.",
        unknown=("What compression costs the client's CPU, and whether the network is the bottleneck at all.",),
    ),
    Rule(
        id="broker.recompress",
        number=58,
        title="Broker rewrites batches",
        severity=Severity.NOTE,
        confidence=Confidence.PROVEN,
        vantage="a producer and a consumer (or follower) of the topic",
        meaning="Consumers get batches in another codec or format than their producer sent them in. The broker "
        "decompresses and compresses each one: it cannot pass bytes on as they are, which costs CPU and memory.",
        text="Batches of topic {topic} that {producer} sends as {sent} reach {consumer} as {got} (samples: {count}; "
        "{example})",
        cause="compression.type of the topic or broker names another codec than the producer's.",
        guards=(
            "Only a batch at the same offset with the same number of records, producer and sequence is compared.",
            "CRCs are not compared: brokers write offsets, and with LogAppendTime timestamps, into each batch.",
            "Batches of magic 0 and 1 are not compared with newer ones: brokers convert what old producers send.",
        ),
        thresholds=(),
        fixes=(
            Fix("broker", None, None, "compression.type=producer (the default) for the topic: batches stay as they "
                "are"),
            Fix("client", "compression.type as the topic's", "compression.type as the topic's",
                "the broker then has nothing to rewrite"),
            Fix("client", "a consumer that uses Fetch v4: 0.11 and newer", "librdkafka 0.11.4 and newer",
                "brokers then convert nothing; Kafka 4 cannot convert any more"),
        ),
        verify="Batches of the topic have the same codec in Produce requests and Fetch responses.",
        unknown=("The topic's configuration: `kafka-configs.sh --describe --topic TOPIC --all` tells.",),
    ),
)  # fmt: skip
