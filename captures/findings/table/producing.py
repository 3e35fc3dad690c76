"""Rules about acks=0 requests that brokers refuse, and about transactions with one or two records."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="txn.tiny",
        number=62,
        title="Transactions of one or two records",
        severity=Severity.NOTE,
        confidence=Confidence.PROVEN,
        vantage="this producer's traffic",
        meaning="A transactional producer commits so often that most of its transactions have one or two records. Each "
        "one costs an EndTxn, writes of the coordinator, and a marker in every partition, as large as a record.",
        text="{client} ends {rate:.0f} transactions a second, with {records:.1f} records each; {share:.0%} of its "
        "requests carry none",
        cause="The application commits after each record.",
        guards=(
            "Kafka Streams commits every 100 ms: ten transactions a second of a thread are below the threshold.",
            "Transactions without records (offsets alone) and those that end with an error do not count.",
            "At least half of the transactions must be that small.",
        ),
        thresholds=(
            Threshold("rate", 15, "transactions/s", "of a client, over ten seconds"),
            Threshold("records", 2, "records", "in a transaction, at most"),
        ),
        fixes=(
            Fix("client", "commitTransaction after many records or 100 ms (Streams: commit.interval.ms)",
                "commit_transaction after many records or 100 ms", "the cost is the same for a thousand records"),
            Fix("client", "enable.idempotence=true without transactional.id", "enable.idempotence=true without "
                "transactional.id", "enough if records are independent: a single record is atomic anyway"),
        ),
        verify="Transactions a second fall, and Produce requests have more records.",
        unknown=("Whether the application needs each record to be visible at once.",),
    ),
    Rule(
        id="producer.acks0_dropped",
        number=68,
        title="Broker refuses records of a producer that wants no response",
        severity=Severity.ERROR,
        confidence=Confidence.STRONG,
        vantage="this producer's traffic to the broker",
        meaning="With acks=0 a broker cannot answer with an error: it closes the connection instead. The records are "
        "lost, and the producer counts them as sent.",
        text="{broker} closed the connection of {client} {after_ms:.0f} ms after a Produce with acks=0 (times: "
        "{count}, bytes of the last one: {bytes})",
        cause="The broker does not lead the partition, or refuses the batch: too large, not allowed, no such topic.",
        guards=(
            "The broker must be the first to close: producers that end close themselves.",
            (
                "A broker that closes other connections at the same time, and serves none, shuts down: that does not "
                "count."
            ),
            ("The finding is an ERROR if the broker keeps other connections, or soon serves a new one; otherwise it "
            "is a NOTE."),
            "A close that another unanswered request, or missing bytes, may explain does not count.",
        ),
        thresholds=(
            Threshold("close_ms", 1000, "ms", "after the Produce"),
            Threshold("grace_ms", 3000, "ms", "around the close, in which other connections begin or end"),
        ),
        fixes=(
            Fix("client", "acks=all or acks=1", "acks=all or acks=1", "errors are answered, and the client retries"),
            Fix("broker", None, None, "the broker's log names the error after `Closing connection due to error during "
                "produce request`"),
        ),
        verify="No connection with acks=0 is closed by a broker.",
        unknown=(
            "The error: a producer with acks=1 gets it for the same batch.",
            "Whether a load balancer in between closed the connection: a capture at the broker tells.",
            "Whether a SASL session expired at that moment: connections.max.reauth.ms of the broker.",
        ),
        under=("leader.stale", "conn.abandoned"),
    ),
)  # fmt: skip
