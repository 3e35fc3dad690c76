"""Rules about traffic that costs more than necessary."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="cost.cross_rack",
        number=31,
        title="Consumer fetches from other racks",
        severity=Severity.NOTE,
        confidence=Confidence.STRONG,
        vantage="this client's traffic, with a Metadata response",
        meaning="Brokers are in several racks, which are availability zones in a cloud, and this consumer fetches from "
        "leaders in all of them. Traffic between zones costs money and time; a follower in the client's zone has the "
        "same records (KIP-392).",
        text="{client} fetched {mebibytes:.0f} MiB from {racks} racks; {why}",
        cause="The client names no rack, or the brokers choose no replica by rack.",
        guards=(
            "The rule applies only if brokers have two racks or more. Fetches of followers do not count.",
            "A client that names no rack counts once leaders of two racks have served it.",
            ("For a client that names its rack, bytes from another rack count only if its own rack has an in-sync "
            "replica."),
            "A client that a response has sent to a preferred replica does not count.",
            ("For a client that names its rack, only fetches from advertised addresses count: only their broker is "
            "known."),
        ),
        thresholds=(
            Threshold("mebibytes", 10, "MiB", "that may have crossed racks, of this client"),
            Threshold("share", 0.25, "of its bytes", "that crossed racks, for a client that names its rack"),
        ),
        fixes=(
            Fix("client", "client.rack", "client.rack", "the zone's name as in broker.rack of its brokers"),
            Fix("broker", None, None, "replica.selector.class="
                "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
        ),
        verify="Fetch requests have a rack, and go to brokers in it.",
        unknown=("In which rack a client runs that names none, and so how many of its bytes cross racks.",),
    ),
    Rule(
        id="meta.heavy",
        number=61,
        title="Client reads large metadata often",
        severity=Severity.NOTE,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="A request for the metadata of all topics makes the broker send every partition of the cluster. A "
        "client with a pattern subscription sends one at each refresh, and some send them all the time.",
        text="{client} {what}",
        cause="The client subscribes to a pattern, lists topics in a loop, or refreshes metadata too often.",
        guards=(
            "Clients read metadata several times at their start: the rate counts over a whole minute.",
            "Large responses count only if there are several within a quarter of an hour.",
            "The rate is measured for each connection separately.",
            "Answers with an error about a topic do not count for the rate: `meta.topic_missing` reports these.",
        ),
        thresholds=(
            Threshold("mebibytes", 10, "MiB a minute", "of responses about all topics"),
            Threshold("large_kib", 1024, "KiB", "of a response about all topics that is large"),
            Threshold("times", 4, "large responses", "within 15 minutes"),
            Threshold("rate", 60, "requests a minute", "on one connection"),
        ),
        fixes=(
            Fix("client", "subscribe to topics by name; metadata.max.age.ms longer; one admin client that lives on",
                "subscribe to topics by name; topic.metadata.refresh.interval.ms longer",
                "a request that names topics gets only these"),
        ),
        verify="Metadata requests name topics, and come every few minutes.",
        unknown=("Which pattern the client subscribes to: its configuration tells.",),
        under=("meta.topic_missing", "client.leak", "leader.stale"),
    ),
)  # fmt: skip
