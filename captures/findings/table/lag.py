"""Rules about consumers that fall behind."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="group.lag_state",
        number=85,
        title="Consumer group falls behind",
        severity=Severity.NOTE,
        confidence=Confidence.STRONG,
        vantage="the group's commits, and any client's Fetch responses of its partitions",
        meaning="Committed offsets stay behind the ends of their partitions, judged by the last ten commits: they have "
        "stopped, they repeat one offset, the lag never falls, or an offset was set back. The states and their order "
        "are Burrow's; partition ends come from Fetch responses, so no polling interval blurs them.",
        text="group {group} {state}: lag {records}, most in {partition} ({most}; partitions behind: {partitions}); the "
        "oldest record has waited for {seconds:.0f} s at least",
        cause="Processing is slower than production, one record cannot be processed, or a partition has no consumer "
        "that works.",
        guards=(
            "A group whose members have left, or no longer send anything, does not count as stopped.",
            "Partitions without new records have no lag, however rarely they are committed.",
            "Ten commits over a minimum time are needed before a stall or growth is reported.",
            "An offset that is set back is a NOTE: operators do that on purpose.",
        ),
        thresholds=(
            Threshold("records", 100, "records", "of lag that count as none"),
            Threshold("lasts_ms", 30000, "ms", "that the last ten commits span at least"),
            Threshold("stop_ms", 60000, "ms", "without a commit, although members of the group are alive"),
        ),
        fixes=(
            Fix("client", "max.poll.records, more consumers up to the number of partitions",
                "queued.max.messages.kbytes, more consumers up to the number of partitions",
                "if the lag grows: records have to be processed faster than they are produced"),
            Fix("client", "skip or set aside the record at the committed offset",
                "skip or set aside the record at the committed offset",
                "if commits repeat one offset: see the record there, and the client's log"),
        ),
        verify="`kproxy groups` shows a lag that falls, and commits with growing offsets.",
        unknown=("Why processing is slow: the client's own profile tells.",),
        under=("consumer.lag_cause",),
    ),
    Rule(
        id="consumer.lag_cause",
        number=9,
        title="Lag grows because something limits the consumer",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="this consumer's traffic with the brokers that it fetches from",
        meaning="The lag of a consumer grows for more than a minute. What it does meanwhile shows the limiter: a quota "
        "delays its requests, an open transaction holds records back, it asks for too little at a time, the broker "
        "answers slowly, or it does not ask, since it processes records. Or no member reads the partition at all.",
        text="{reader} falls behind, limited by {limiter}: lag {lag}, most in {partition} (partitions behind: "
        "{partitions}); {how}",
        cause="Records come in faster than the consumer reads them.",
        guards=(
            "A lag that falls or stays equal is not reported: the consumer catches up, or keeps up.",
            "The smallest lag of each 20 s is compared, over four such periods: commits and responses come in steps.",
            "A lag that grows a little, or is small, is not reported.",
            (
                "Measurements start over for a consumer that was away for more than five minutes, and for a new "
                "connection."
            ),
            "Fetches of followers do not count.",
            "A connection with missing bytes is not judged: the missing part would look like a pause.",
            "That nobody reads a partition is reported only for a group that is alive and fetches other partitions.",
        ),
        thresholds=(
            Threshold("records", 10000, "records", "of lag"),
            Threshold("inflow_s", 60, "s", "of inflow that a lag below `records` must hold"),
            Threshold("least", 1000, "records", "of lag that are needed in any case"),
            Threshold("grows", 0.1, "of the lag", "by which the lag must have grown"),
            Threshold("throttled", 0.3, "of the time", "throttled: the quota is the limiter"),
            Threshold("held", 0.5, "of the lag", "beyond the last stable offset: a transaction is the limiter"),
            Threshold("paused", 0.5, "of the time", "from a response to the next request: processing is the limiter"),
            Threshold("full", 0.9, "of the responses", "that are full: the fetch size is the limiter"),
            Threshold("fetched", 0.1, "of the lag", "that is not fetched yet, at most: processing is the limiter"),
            Threshold("grace_s", 20, "s", "after the last commit, when members still fetch other partitions"),
        ),
        fixes=(
            Fix("client", "more consumers up to the number of partitions; process in batches or in parallel",
                "more consumers up to the number of partitions; process in batches or in parallel",
                "where processing limits"),
            Fix("client", "max.partition.fetch.bytes, fetch.max.bytes", "max.partition.fetch.bytes, fetch.max.bytes",
                "where the fetch size limits"),
            Fix("broker", None, None, "where a quota limits: raise consumer_byte_rate or request_percentage of this "
                "client; where the broker limits: see its disk, its request threads and the network"),
        ),
        verify="`kproxy groups` shows a lag that falls.",
        unknown=(
            "What the application does between requests: its own profile tells.",
            "Which member owns a partition that nobody fetches: a capture of all members tells.",
        ),
        under=("group.poll_gap",),
    ),
)  # fmt: skip
