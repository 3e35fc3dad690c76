"""Rules about transactions that stay open, and the consumers that wait for them."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="txn.lso_stall",
        number=10,
        title="Open transaction keeps consumers waiting",
        severity=Severity.NOTE,
        confidence=Confidence.STRONG,
        vantage="consumers of the partition; its transactional producers, to name the owner",
        meaning="The last stable offset of a partition stays below its high watermark: a transaction that wrote there "
        "is open. Consumers with isolation.level=read_committed get no records beyond it, whoever wrote them.",
        text="{owner} {does} for {seconds:.0f} s: {records} held back (partitions: {partitions}, consumers waiting: "
        "{waiting}; {example})",
        cause="The producer neither commits nor aborts: it hangs, crashed, or its transactions are long.",
        guards=(
            "The last stable offset must not move for `flat_ms`: short transactions move it.",
            "A transaction within its producer's transaction.timeout.ms is a NOTE: it may be long on purpose.",
            "If no consumer was seen waiting at the last stable offset, the finding is one level less severe.",
            "A single response gives a NOTE, and only if the capture has the transaction without its end.",
        ),
        thresholds=(
            Threshold("flat_ms", 10000, "ms", "in which the last stable offset does not move"),
            Threshold("long_ms", 60000, "ms", "open, for a WARN, if the producer's own timeout is not in the capture"),
            Threshold("grace_ms", 20000, "ms", "beyond the producer's own timeout, for an ERROR"),
            Threshold("hanging_s", 1200, "s", "open, for an ERROR, if the producer's own timeout is unknown: "
                      "transaction.max.timeout.ms and 5 minutes"),
        ),
        fixes=(
            Fix("client", "transaction.timeout.ms; commitTransaction or abortTransaction on every path, also after "
                "exceptions",
                "transaction.timeout.ms; commit_transaction or abort_transaction on every path, also after errors",
                "the coordinator aborts what is open for longer than the timeout"),
            Fix("client", "a transactional.id that survives restarts", "a transactional.id that survives restarts",
                "initTransactions of the next instance aborts what the last one left open"),
            Fix("broker", None, None, "beyond the timeout the transaction hangs (KIP-664): kafka-transactions.sh "
                "find-hanging, then abort"),
        ),
        verify="The last stable offset in Fetch responses of the partition reaches the high watermark.",
        unknown=(
            "The owner, where it is outside this capture: `kafka-transactions.sh describe-producers` tells.",
            "Whether the coordinator has written its markers: a capture between the brokers has WriteTxnMarkers.",
        ),
        under=("txn.fenced",),
    ),
)  # fmt: skip
