"""Rules about TCP: peers that do not read, lost segments, brokers that do not accept connections."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="tcp.pressure",
        number=60,
        title="TCP problems between client and broker",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="packets of the connection; kproxy's own recordings have none",
        meaning="TCP waits for a side that does not read, sends lost segments again, or tries in vain to connect to a "
        "broker. Kafka's own times show this only as slow requests.",
        text="{client} and {broker}: {what}",
        cause="A side is overloaded, or the network loses packets.",
        guards=(
            "A client that does not read is a NOTE: while a consumer processes records, the next ones wait in TCP.",
            "A segment that was captured twice or out of order, or that probes for a lost tail, does not count.",
            "Retransmissions count by client host and broker, and only if the capture itself lacks nothing.",
            "SYNs count only if they go to a broker that has answered or is advertised, and were repeated or refused.",
            ("Refused connections are an INFO up to `down_ms`: brokers restart. A connection that works ends the "
            "series."),
        ),
        thresholds=(
            Threshold("closed_ms", 200, "ms", "that a receive window was closed without interruption"),
            Threshold("total_ms", 1000, "ms", "that it was closed on one connection in all"),
            Threshold("share", 0.01, "of segments", "that were retransmitted, on connections with retransmissions"),
            Threshold("segments", 20, "segments", "that were sent again"),
            Threshold("knocks", 3, "connections", "in a row that a broker did not accept, for a WARN"),
            Threshold("down_ms", 60000, "ms", "from the first of these to the latest, for a WARN"),
        ),
        fixes=(
            Fix("client", "poll more often; fetch.max.bytes and max.partition.fetch.bytes smaller",
                "queued.max.messages.kbytes; more CPU for the process", "for a client that does not read"),
            Fix("broker", None, None, "num.network.threads, num.io.threads, disks and quotas, for a broker that does "
                "not read"),
            Fix("network", None, None, "look for loss with the host's counters (ss -ti, ethtool -S), and at limits of "
                "the instance type; for unanswered SYNs firewall rules, routes and the broker's process"),
        ),
        verify="A capture after the change has no closed windows, and next to no retransmissions.",
        unknown=("Where packets are lost: a capture on the other side tells.",
                 "Connections that are still open: TCP is judged at their end, or at the capture's."),
        under=("latency.throttled", "conn.idle_drop"),
    ),
)  # fmt: skip
