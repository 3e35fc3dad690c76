"""Rules about latency: slow brokers, and requests that wait behind others."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="latency.broker_slow",
        number=6,
        title="Broker answers slowly",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="clients of this broker",
        meaning="The latency of a request has four parts: queue (a broker reads the next request of a connection only "
        "after it has answered the one before), throttle (a quota of the response before, KIP-219), wait (a Fetch "
        "waits for records as long as it asks for), and the broker's own time. Only the last one counts here.",
        text="{broker}: {text}",
        cause="The broker is slow, or its followers are, or the network between the capture and the broker.",
        guards=(
            "JoinGroup, SyncGroup, ShareFetch and SaslAuthenticate wait for others and do not count.",
            "For a Fetch only the time beyond its max_wait_ms counts, and only if that is more than 100 ms.",
            "Requests with long work (topics, replicas, elections, ends of transactions) are judged singly, as a NOTE.",
            "Responses of 64 KiB or more do not count: their last byte is late if the client reads slowly.",
            "The first request of a connection does not count, nor do connections with missing bytes.",
            "A broker that is only slower than others is a NOTE; at least two others must have served the same API.",
            "Requests that wait for followers are a NOTE while another broker restarts: it closed its connections.",
            "One short pause is a NOTE: all slow requests of a minute waited at the same moment.",
        ),
        thresholds=(
            Threshold("slow_ms", 500, "ms", "of the broker's own time, for a slow request"),
            Threshold("share", 0.01, "of the requests", "of an API to a broker within a minute that are slow"),
            Threshold("several", 5, "requests", "that are slow, at least"),
            Threshold("least", 50, "requests", "of an API to a broker within a minute, to judge them"),
            Threshold("pause_ms", 2000, "ms", "of the broker's own time, for a pause that is more than a NOTE"),
            Threshold("single_ms", 5000, "ms", "of the broker's own time, for a single request"),
            Threshold("long_ms", 24000, "ms", "of the broker's own time, for an ERROR: 80 % of Java's "
                      "request.timeout.ms"),
            Threshold("times", 3, "times", "the median of the other brokers"),
            Threshold("median_ms", 50, "ms", "that the median must have to be compared"),
        ),
        fixes=(
            Fix("broker", None, None, "if only Produce with acks=all is slow: see followers, num.replica.fetchers"),
            Fix("broker", None, None, "if all APIs are slow: see disks, garbage collection, num.io.threads, network"),
            Fix("client", "request.timeout.ms, delivery.timeout.ms", "socket.timeout.ms, message.timeout.ms",
                "longer than the slowest response, so that requests are not given up and sent again"),
        ),
        verify="The same API at this broker stays below the threshold for several minutes.",
        unknown=(
            "Whether the network or the broker was slow: a capture on the broker's host tells.",
            "What the broker did: its metrics RequestQueueTimeMs, LocalTimeMs and RemoteTimeMs tell.",
        ),
        under=("latency.throttled",),
    ),
    Rule(
        id="latency.hol",
        number=57,
        title="Requests wait behind long polls",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="this client's traffic",
        meaning="A broker serves the requests of a connection one after the other. A heartbeat, commit or Produce "
        "that follows a Fetch or JoinGroup on the same connection waits until that one is answered.",
        text="{client} had {count} {api} requests wait behind {before} on one connection to {broker}: {lost_s:.1f} s "
        "in all, up to {longest_ms} ms at once",
        cause="The client sends long polls and urgent requests over one connection.",
        guards=(
            "Requests behind equally urgent ones, such as pipelined Produce, do not count.",
            "At least half of the latency must be this wait.",
        ),
        thresholds=(
            Threshold("queue_ms", 200, "ms", "that a request waited behind the one before"),
            Threshold("several", 3, "requests", "of one API, client and broker"),
        ),
        fixes=(
            Fix("client", "the Java client has a connection of its own for its coordinator",
                "librdkafka 1.0 or later", "these clients keep long polls and the coordinator's requests apart"),
            Fix("client", "fetch.max.wait.ms", "fetch.wait.max.ms", "shorter waits, if the client cannot be changed"),
        ),
        verify="Heartbeats and commits are answered within milliseconds while a Fetch waits.",
        unknown=("Whether the client's program waits for these requests: its own log tells.",),
    ),
    Rule(
        id="client.ignores_throttle",
        number=80,
        title="Client sends while it is throttled",
        severity=Severity.NOTE,
        confidence=Confidence.PROVEN,
        vantage="this connection",
        meaning="Since KIP-219 the broker answers a throttled request at once and asks the client to wait. The client "
        "does not wait; the broker reads its requests only later, so they look slow and may time out.",
        text="{client} sent {count:#request} to {broker} on connection {connection} while it was throttled; they "
        "waited {lost_s:.1f} s in the broker's socket",
        cause="The client library does not implement the client's part of KIP-219; librdkafka is one of these.",
        guards=(
            "A request that was sent before the throttled response came does not count.",
            "Only throttling by Produce v6 or later and Fetch v8 or later counts.",
        ),
        thresholds=(
            Threshold("requests", 3, "requests", "that were sent too early"),
            Threshold("slack_ms", 5, "ms", "tolerated after the response and before the throttle time ends"),
        ),
        fixes=(
            Fix("client", "the Java client waits by itself", "request.timeout.ms and socket.timeout.ms longer than the "
                "throttle times", "requests that wait in the socket count as in flight"),
            Fix("broker", None, None, "a higher quota, so that nothing waits"),
        ),
        verify="No request of the connection is sent before the throttle time of the response before is over.",
        unknown=("The quota itself: `kafka-configs.sh --describe --entity-type clients` tells.",),
        under=("latency.throttled",),
    ),
)  # fmt: skip
