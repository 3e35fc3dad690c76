"""Rules about followers that stop fetching or do not catch up."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="replica.lag",
        number=45,
        title="Follower does not keep up with its leader",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="traffic between the brokers",
        meaning="A follower asks its leader for nothing, or for offsets below the high watermark without coming "
        "nearer: it is not in sync. If the leader fails as well, records may be lost or the partition has no leader.",
        text="node {node} {what}",
        cause="The follower stands still, or copies too slowly.",
        guards=(
            ("A follower whose connection is closed, or that uses another one, does not count: it restarts, or follows "
            "another leader."),
            ("A leader that answers nobody may stand still itself: a finding needs the follower's next request, or "
            "responses to others."),
            "A new or restarted replica does not count while its lag falls.",
            "A follower that is behind only now and then does not count: it has caught up in between.",
            "A few offsets do not count as lag. A follower in the ISR is never behind the high watermark.",
            "Silence on a connection with missing bytes proves nothing.",
        ),
        thresholds=(
            Threshold("silent_ms", 30000, "ms", "without a Fetch; replica.lag.time.max.ms"),
            Threshold("lasts_ms", 30000, "ms", "between two measurements of the lag"),
            Threshold("gap_ms", 10000, "ms", "without lag, which end an episode"),
            Threshold("offsets", 1000, "offsets", "behind the high watermark"),
            Threshold("falls", 0.1, "of the lag", "by which the lag of a follower must fall to count as catching up"),
        ),
        fixes=(
            Fix("broker", None, None, "look at the follower's garbage collection, disk and network"),
            Fix("broker", None, None, "raise num.replica.fetchers, or the replication quota of a reassignment"),
        ),
        verify="Its Fetch requests ask for offsets at the high watermark; Metadata names it in the ISRs.",
        unknown=(
            ("A single follower that never comes back, while nobody else fetches from its leader: Metadata shows it as "
            "missing in ISRs."),
            "How far a follower within the ISR is behind the leader's last offset: its metrics tell.",
        ),
        under=("kraft.broker_fenced",),
    ),
)  # fmt: skip
