"""Rules about versions: clients that are old or that brokers refuse, and unfinished upgrades."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="upgrade.cutoff",
        number=14,
        title="Kafka 4 would cut the client off",
        severity=Severity.WARN,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="Kafka 4.0 removed old versions of requests (KIP-896). A client that has no newer "
        "ones cannot talk to such a broker: the broker closes the connection without a response.",
        text="{client} ({software}) uses {worst} at most; Kafka {target} answers {needed} and newer",
        cause="The client's library is older than what Kafka 4 supports.",
        guards=(
            "A client that asks for versions, and is offered no newer one, does not count: it may know newer ones.",
            "Requests between brokers do not count: brokers use the versions of their own release.",
            "Fewer requests than `probes` are a NOTE.",
            "A connection whose beginning is missing may have asked for versions before.",
            "Requests without client id do not count if bytes of their connection are missing: they may be a broker's.",
        ),
        thresholds=(Threshold("probes", 3, "requests", "of a version that would be refused, for a WARN"),),
        fixes=(
            Fix(
                "client",
                "kafka-clients 2.1 or newer",
                "librdkafka 2.11.1 or newer",
                "KIP-896 keeps what the Java client speaks from 2.1 on; Kafka 4.0.0 lacks JoinGroup v0 and v1 as well",
            ),
        ),
        verify="After the update, requests of this client have the versions named, or newer.",
        unknown=("Clients that were silent during the capture: capture until the rarest job has run.",),
    ),
    Rule(
        id="upgrade.refused",
        number=14,
        title="Broker refuses a request's version",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="The request has a version that the broker does not have. Brokers close such a connection at once, "
        "without a response; only an ApiVersions request is answered.",
        text="{client} sent {api} v{version} to {broker}, which {answers}: closed after "
        "{closed_ms:.0f} ms",
        cause="The client's library is too old, or too new, for the broker.",
        guards=(
            "The rule applies only if the broker's versions are known from an ApiVersions response without error.",
            "Produce v0 to v2 count although a Kafka 4 broker offers them: it refuses them.",
            ("The rule applies only if the connection closed within `close_ms` of the request, and the capture has "
            "all of it."),
        ),
        thresholds=(Threshold("close_ms", 1000, "ms", "longest time from the request to the close"),),
        fixes=(Fix("client", "kafka-clients 2.1 or newer", "librdkafka 2.11.1 or newer", "as for `upgrade.cutoff`"),),
        verify="The client's requests of this API are answered.",
    ),
    Rule(
        id="client.outdated",
        number=56,
        title="Client library is old",
        severity=Severity.NOTE,
        confidence=Confidence.STRONG,
        vantage="this client's traffic",
        meaning="The client says that its library is years old, or it sends requests without ever asking the broker "
        "for its versions, as libraries from before 2016 do (KIP-35). Old libraries lack years of corrections.",
        text="{client} {what}",
        cause="The library was not updated.",
        guards=(
            "Only Apache Kafka's Java client and librdkafka are judged, because their names and versions are known.",
            "A client that never asks for versions is an INFO, because some new libraries do not ask.",
            "A client counts as never asking only if all its connections are in the capture from their beginning.",
            "Brokers do not count: they talk to each other without asking.",
        ),
        thresholds=(
            Threshold("java", 3.0, "version", "lowest version of kafka-clients that is not old; 2.08 stands for 2.8"),
            Threshold("librdkafka", 2.0, "version", "lowest version of librdkafka that is not old"),
        ),
        fixes=(
            Fix("client", "the latest kafka-clients", "the latest librdkafka", "any 4.x client works with brokers of "
                "2.1 and newer"),
        ),
        verify="ApiVersions requests of this client name a newer version.",
        unknown=("The version of a library that does not name itself: its program tells.",),
        under=("upgrade.refused", "upgrade.cutoff"),
    ),
    Rule(
        id="deprecated.use",
        number=64,
        title="Client uses requests that Kafka has replaced",
        severity=Severity.NOTE,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="Kafka still answers these requests, but has better ones: AlterConfigs replaces a whole configuration "
        "where IncrementalAlterConfigs changes one entry, and first versions lack errors, ids and throttle times.",
        text="{client} uses {what}",
        cause="The tool or library is old.",
        guards=(
            "First versions of Metadata and FindCoordinator are an INFO: they work.",
            "Requests of brokers do not count, except the commands of ZooKeeper mode.",
        ),
        thresholds=(Threshold("requests", 1, "requests", "of this kind"),),
        fixes=(
            Fix("client", "incrementalAlterConfigs()", "IncrementalAlterConfigs (librdkafka 2.2)",
                "AlterConfigs deletes each entry that it does not name"),
            Fix("client", "a newer kafka-clients", "a newer librdkafka", "for old versions of requests"),
            Fix("broker", None, None, "for commands of ZooKeeper mode: migrate to KRaft, with 3.9 at the latest"),
        ),
        verify="Requests of this client have none of these.",
        under=("upgrade.refused", "upgrade.cutoff"),
    ),
    Rule(
        id="upgrade.cluster",
        number=55,
        title="Cluster's upgrade is not finished",
        severity=Severity.NOTE,
        confidence=Confidence.STRONG,
        vantage="clients that ask several brokers for their versions",
        meaning="Brokers of one cluster answer different versions of requests, so they are of different releases; or "
        "all are updated, and the cluster still works in the way of the older release, because the new level of a "
        "feature was not finalized.",
        text="{what}",
        cause="A rolling upgrade is under way, or was not finished.",
        guards=(
            "Only APIs that both brokers offer count: some depend on plugins, listeners and settings.",
            "Only brokers that offer Produce are compared: controllers have other APIs.",
            "Nothing is compared as soon as two cluster ids are in the capture.",
            "Brokers of both releases must have been seen within `fresh_ms`.",
            "A short mix is an INFO: rolling upgrades take a while.",
            "Features that an administrator may leave off on purpose are not reported.",
        ),
        thresholds=(
            Threshold("fresh_ms", 600000, "ms", "within which brokers of both releases must answer"),
            Threshold("mixed_ms", 600000, "ms", "of a mix, for a NOTE"),
            Threshold("stuck_ms", 86400000, "ms", "of a mix, for a WARN"),
        ),
        fixes=(
            Fix("broker", None, None, "update all brokers, then kafka-features.sh upgrade --release-version"),
        ),
        verify="All brokers answer the same ranges, and finalized features have the highest supported level.",
        unknown=("Brokers that no client asked.", "Whether a level is kept low so that a downgrade stays possible."),
    ),
)  # fmt: skip
