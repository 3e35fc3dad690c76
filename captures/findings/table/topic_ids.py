"""Rules about clients that keep using the id of a deleted topic."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="topic.recreated_commit",
        number=82,
        title="Client keeps using the id of an old topic",
        severity=Severity.WARN,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="The broker does not know the topic id that the client sends: the topic was deleted, or deleted and "
        "recreated under its name. Offsets of the old topic mean nothing in the new one.",
        text="{client} got {error} for topic {topic} {count:#time} in {seconds:.1f} s",
        cause="The client did not read the topic's new id from Metadata, or the topic is gone.",
        guards=(
            "One or two such responses do not count: they tell the client to read the new id.",
            "A success of the client on the topic ends the count.",
        ),
        thresholds=(
            Threshold("errors", 3, "responses", "with the error, without a success between them"),
            Threshold("lasts_ms", 5000, "ms", "from the first to the last"),
        ),
        fixes=(
            Fix("client", "restart the client; update a library that keeps topic ids",
                "restart the client; update a library that keeps topic ids",
                "the client starts with the new topic's id; check its committed offsets, which were the old topic's"),
            Fix("broker", None, None, "if the deletion was a mistake: limit who may delete (kafka-acls.sh, "
                "delete.topic.enable)"),
        ),
        verify="Requests of this client for the topic succeed.",
        unknown=("Who deleted the topic: the broker's or controller's log tells.",),
    ),
)  # fmt: skip
