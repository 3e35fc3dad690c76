"""Rules about offsets: consumers that skip or repeat records, or are stuck."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="consumer.offset_skip",
        number=8,
        title="Consumer skips records or reads them again",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        vantage="this consumer's traffic",
        meaning="The broker refused a consumer's position with OFFSET_OUT_OF_RANGE, or its group had no committed "
        "offset. The consumer took another position, by auto.offset.reset. Records in between are never read, or "
        "are read again.",
        text="{client} {what} of topic {topic} (partitions: {partitions}; {example})",
        cause="Retention or DeleteRecords removed records before the consumer read them.",
        guards=(
            "A follower that lacks the offset is not a loss: the consumer reads the same offset at the leader.",
            "A change of position without an error is a seek, and is not reported.",
            "The next fetch must be on the same connection: other consumers may have the same client id.",
            ("The finding is an ERROR only if the client read the partition before, or its group had committed the "
            "position."),
            "A group that begins at the latest offset is a NOTE, a WARN if it had a commit earlier in the capture.",
        ),
        thresholds=(Threshold("within_ms", 60000, "ms", "from the error, or the missing commit, to the next fetch"),),
        fixes=(
            Fix("client", "auto.offset.reset (none: the application decides)",
                "auto.offset.reset (error: the application decides)",
                "latest skips all unread records, earliest reads all remaining records again"),
            Fix("broker", None, None, "retention.ms and retention.bytes above the greatest lag; "
                "offsets.retention.minutes (7 days) above the longest pause of a group"),
            Fix("other", None, None, "raise an alarm on consumer lag before retention removes what was not read"),
        ),
        verify="Fetch responses to this consumer have no OFFSET_OUT_OF_RANGE; OffsetFetch finds a committed offset.",
        unknown=(
            "How many records lie between the offsets: compaction and transaction markers take offsets too.",
            "Who removed them: retention and DeleteRecords show in the broker's log.",
        ),
        under=("log.truncated",),
    ),
    Rule(
        id="consumer.poison",
        number=22,
        title="Consumer is stuck at one offset",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="this consumer's traffic, also with its coordinator",
        meaning="A consumer begins at the same committed offset again and again, although it gets records there, or "
        "fetches the same offset again and again. It seems to fail at what it reads there, and the partition waits.",
        text="{client} {what} (times: {times}, within {seconds:.0f} s)",
        cause="The application fails at a record near this offset, and is restarted or goes back to it.",
        guards=(
            "Fetching the commit again without reading records does not count: tools do that.",
            "A commit of another offset is progress, and ends the count.",
            "A consumer that only repeats the same fetch is a NOTE, because one that pauses a partition does the same.",
            "An empty response at the end of the partition does not count.",
        ),
        thresholds=(
            Threshold("starts", 3, "starts", "at the same commit, after the first"),
            Threshold("fetches", 20, "responses", "with records at the same offset, on one connection"),
            Threshold("lasts_ms", 30000, "ms", "from the first to the last"),
        ),
        fixes=(
            Fix("client", "ErrorHandlingDeserializer (Spring), a dead letter topic, seek past the record",
                "a dead letter topic, commit the offset after the record",
                "one record that cannot be processed must not stop the partition"),
            Fix("client", "max.poll.records, max.poll.interval.ms, commit more often",
                "max.poll.interval.ms, commit more often",
                "where the application is not stuck but too slow: it is restarted before it commits"),
        ),
        verify="The group's committed offset of the partition grows.",
        unknown=(
            "Which record it is: `kproxy export --format jsonl` shows it; the application's log says why it fails.",
            "A consumer that begins again at another address or with another client id.",
        ),
        under=("group.poll_gap",),
    ),
    Rule(
        id="offsets.storage_split",
        number=76,
        title="Offsets are committed in one place and read in another",
        severity=Severity.WARN,
        confidence=Confidence.PROVEN,
        vantage="this consumer's traffic",
        meaning="OffsetCommit and OffsetFetch of version 0 use ZooKeeper, newer versions use the topic "
        "__consumer_offsets. A client that writes with one and reads with the other never finds its commits.",
        text="{client} of group {group} commits offsets to {to} and reads them from {source}",
        cause="A client of 0.8 or an old library has different versions for the two requests, or offsets.storage and "
        "dual.commit.enabled changed.",
        guards=(
            "A client that uses both places for commits, or for reading, is migrating: only its second commit counts.",
            "Tools that only read the commits of others do not count.",
        ),
        thresholds=(),
        fixes=(
            Fix("client", "a client of 0.9 or newer; until then offsets.storage=kafka with dual.commit.enabled=true",
                "a client of 0.9 or newer",
                "Kafka 4 has no ZooKeeper: version 0 of both requests is gone"),
        ),
        verify="OffsetCommit and OffsetFetch of the client both have version 1 or newer.",
        unknown=("Commits that a 0.8 client writes to ZooKeeper itself: they do not pass the broker.",),
    ),
)  # fmt: skip
