"""Rules about how consumers fetch: sessions, and the size of responses."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="fetch.session_refused",
        number=24,
        title="Broker grants no fetch session",
        severity=Severity.NOTE,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="A consumer asks for a fetch session (KIP-227), with which later requests name only what changed. The "
        "broker answers with session id 0, or does not know the session any more, so every request and response names "
        "all partitions.",
        text="{broker} gave {client} no fetch session {count:#time} ({answer}); each request names {partitions} "
        "partitions",
        cause="The broker's cache of fetch sessions is full. A new session takes the place only of a session that was "
        "idle for two minutes or has fewer partitions, and there is none.",
        guards=(
            "Clients that ask for no session, such as librdkafka (epoch -1), do not count.",
            "Throttled responses do not count: they never grant a session.",
            "A granted session ends the count, so single refusals while a broker starts do not count.",
            "A restarted broker does not know old sessions: single errors do not count.",
            "Followers do not count.",
        ),
        thresholds=(
            Threshold("in_a_row", 5, "requests", "to one broker that get no session, with no success between them"),
            Threshold("errors", 3, "responses", "FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or "
                      "FETCH_SESSION_TOPIC_ID_ERROR of one broker within a minute"),
        ),
        fixes=(
            Fix("broker", None, None, "raise max.incremental.fetch.session.cache.slots (1000) above the number of "
                "consumers and followers that fetch from one broker"),
            Fix("client", "one consumer for many partitions, closed properly",
                "it uses no sessions", "each consumer takes one session of every broker that it fetches from"),
        ),
        verify="The response to a request with session epoch 0 has a session id, and the next one has epoch 1.",
        unknown=("How full the cache is: the broker's metric NumIncrementalFetchSessions tells.",),
    ),
    Rule(
        id="fetch.tiny_polls",
        number=39,
        title="Fetch responses with almost no data",
        severity=Severity.NOTE,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="A busy consumer gets many responses of a few bytes, because fetch.min.bytes is 1: the broker answers "
        "as soon as there is anything. Most of the work of both is overhead.",
        text="{client} gets {rate:.0f} responses to Fetch a second with {bytes:.0f} bytes of records on average; "
        "fetch.min.bytes={min_bytes} would save {saved:.0f} requests a second",
        cause="Records come in a trickle, and the consumer asks for them one by one.",
        guards=(
            "Clients that get few responses a second do not count.",
            "Answers without records do not count: long polls that wait, and those of throttled clients.",
            "A client that sets fetch.min.bytes does not count.",
            "The finding is a NOTE: an application that needs each record within milliseconds does this on purpose.",
        ),
        thresholds=(
            Threshold("rate", 20, "responses a second", "with records, over a minute"),
            Threshold("bytes", 1024, "bytes", "of records in a response on average, below which responses are tiny"),
        ),
        fixes=(
            Fix("client", "fetch.min.bytes, fetch.max.wait.ms", "fetch.min.bytes, fetch.wait.max.ms",
                "the broker waits until so many bytes are there, or the time is over"),
            Fix("client", "producers: linger.ms", "producers: linger.ms",
                "larger batches make fewer responses, too"),
        ),
        verify="Fewer responses a second have the same number of bytes.",
        unknown=("How late records may be: the application's owner knows.",),
    ),
    Rule(
        id="fetch.size_bound",
        number=40,
        title="Fetch size limits a consumer",
        severity=Severity.NOTE,
        confidence=Confidence.STRONG,
        vantage="this client's traffic",
        meaning="A consumer is behind, asks again as soon as it has a response, and nearly each response is as large "
        "as max.partition.fetch.bytes or fetch.max.bytes allows. So it gets at most that many bytes per round trip.",
        text="{full} of {count} responses of {broker} to {client} were full ({most} bytes, {partition}; {how}): "
        "{rate:.0f} bytes a second at {latency_ms:.0f} ms each, {lag} offsets behind",
        cause="The limit is too small for the time that a round trip takes.",
        guards=(
            "Consumers that are not behind do not count.",
            ("A consumer that catches up with a limit of ordinary size does not count: full responses are how it "
            "catches up."),
            "A consumer that pauses between requests is held up by its processing, not by the limit.",
            "Time in which a quota delays requests is not part of a round trip: see `latency.throttled`.",
        ),
        thresholds=(
            Threshold("full", 0.9, "of the limit", "from which on a response is full"),
            Threshold("share", 0.9, "of the responses", "with records that must be full"),
            Threshold("lasts_ms", 30000, "ms", "of such responses"),
            Threshold("least", 30, "responses", "in this time"),
            Threshold("paused", 0.3, "of the time", "at most from a response to the next request"),
            Threshold("small_bytes", 262144, "bytes", "below which a limit counts even if the consumer catches up"),
        ),
        fixes=(
            Fix("client", "max.partition.fetch.bytes (1 MiB), fetch.max.bytes (50 MiB)",
                "max.partition.fetch.bytes (1 MiB), fetch.max.bytes (50 MiB), fetch.message.max.bytes",
                "larger responses need fewer round trips"),
            Fix("client", "more partitions, and consumers for them", "more partitions, and consumers for them",
                "each partition has a limit of its own"),
            Fix("client", "client.rack", "client.rack", "a replica that is near answers sooner (KIP-392)"),
        ),
        verify="Answers are smaller than the limit, or the consumer's lag becomes smaller.",
        unknown=("Whether the network or the client could take more: TCP windows at both ends tell.",),
        under=("consumer.lag_cause", "latency.throttled"),
    ),
    Rule(
        id="fetch.refetch",
        number=41,
        title="Consumer fetches the same records again",
        severity=Severity.NOTE,
        confidence=Confidence.STRONG,
        vantage="this consumer's traffic",
        meaning="A consumer gets records at an offset that it has just got on the same connection: what it had in "
        "memory was thrown away.",
        text="{client} got {bytes} bytes of records again in {seconds:.0f} s, {share:.0%} of all ({count} responses)",
        cause="Calls of seek(), pause() and resume(), or changes of the subscription, make the client drop what it has "
        "fetched and not yet delivered (pause() does so in Java before 2.4 and in librdkafka).",
        guards=(
            "Only a partition's last 16 responses count: reading a topic again from its start is intended.",
            "A new connection begins anew: after a restart or a rebalance records are read again by design.",
            "Small shares, short periods and few bytes do not count: some repetition is normal.",
            "The same offset without records does not count: it is a long poll.",
        ),
        thresholds=(
            Threshold("share", 0.2, "of the bytes", "within five minutes"),
            Threshold("bytes", 100000, "bytes", "at least, within five minutes"),
            Threshold("least", 10, "responses", "at least, within five minutes"),
            Threshold("lasts_ms", 30000, "ms", "of traffic, at least"),
        ),
        fixes=(
            Fix("client", "Java 2.4 or newer keeps what it fetched for paused partitions (KAFKA-7548)",
                "pause and resume seldom, for longer; lower queued.min.messages, queued.max.messages.kbytes",
                "the fewer fetched records a client drops, the fewer it fetches again"),
            Fix("client", "no seek() to the present position after each poll()",
                "no seek() to the present position after each poll()", "retry a record from memory instead"),
        ),
        verify="Fetch offsets of each partition only grow.",
        unknown=("Which call drops them: the application's code tells.",),
        under=("consumer.poison", "group.rebalance_cause"),
    ),
)  # fmt: skip
