"""Rules about records that are damaged, or too large for their reader."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="record.corrupt",
        number=53,
        title="Record batch is damaged",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        vantage="the producers or consumers of the topic",
        meaning="The CRC in a batch's header does not match its bytes. Brokers refuse such a batch from a producer; "
        "consumers that get one stop at it.",
        text="{who} {what} batches of topic {topic} whose CRC does not match (batches: {count}; {example})",
        cause="The broker's disk or memory damaged the batch, or something between broker and capture changes bytes.",
        guards=(
            "Nothing is reported about a connection with missing or cut bytes.",
            "A batch that is cut at the end of a Fetch response does not count: that is normal.",
            "A CRC of 0 does not count: it comes from software that computes none.",
        ),
        thresholds=(),
        fixes=(
            Fix("broker", None, None, "kafka-dump-log.sh --files SEGMENT prints isvalid: false for damaged batches; "
                "another replica may have the batch whole: move the leader, and let this replica copy it again"),
            Fix("client", "check.crcs=true (the default)", "check.crcs=true (the default is false)",
                "a client that does not check accepts damaged records"),
            Fix("other", None, None, "proxies and addons that change records must recompute the CRC"),
        ),
        verify="Every batch has crcValid true in the exchange JSON.",
        unknown=(
            "Which hop changed the bytes: captures at both ends tell.",
            "Damage that the CRC cannot show: compressed data that was wrong before the CRC was computed.",
        ),
    ),
    Rule(
        id="fetch.oversize_stuck",
        number=67,
        title="Consumer cannot read a large message",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        vantage="this consumer's traffic",
        meaning="Before Fetch v3 a response never exceeds the request's limit. A message that is larger comes as a "
        "part only, which the client drops, to ask again for the same offset forever.",
        text="{client} got only a part of the message at offset {offset} of {partition} (responses: {count}, bytes of "
        "the message: {size}, limit of the request: {most})",
        cause="The message is larger than the consumer's limit for a partition.",
        guards=(
            "The message must be cut in several responses in a row: a client that raises its limit gets all of it.",
            "Fetch v3 and later do not count: their responses have at least one whole batch (KIP-74).",
        ),
        thresholds=(Threshold("answers", 3, "responses", "with a part of the same message only"),),
        fixes=(
            Fix("client", "max.partition.fetch.bytes (0.8: fetch.message.max.bytes) above max.message.bytes",
                "fetch.message.max.bytes above max.message.bytes", "or a client that uses Fetch v3: 0.10.1 and newer"),
            Fix("broker", None, None, "max.message.bytes below the limits of all consumers"),
        ),
        verify="The consumer's fetch offset of the partition grows.",
        unknown=(),
    ),
)  # fmt: skip
