"""The sections of a report as data: each has an analysis, its columns and its plot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from kproxy.captures.spark.report import (
    batches,
    errors,
    findings,
    journeys,
    latency,
    overview,
    plots,
    rebalances,
    throttling,
    throughput,
    usage,
    versions,
)
from kproxy.captures.spark.report.forms import FORMS
from kproxy.captures.spark.report.tables import Executor

Rows = Sequence[Mapping[str, Any]]
Analysis = Callable[[int], str]
"""A function of the length of an interval in seconds, which returns the query for the section's rows."""

_POINTS: Final = 120
"""Approximate maximum number of intervals in a plot over time."""
_SECONDS: Final = (1, 2, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400)
_DRAWN: Final = 20
"""Maximum number of rows in a plot."""
_SERIES: Final = 3
"""Maximum number of topics that are drawn over time."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a section; `form` is a key of captures.spark.report.forms.FORMS.

    A `wide` column is shown in pages, but not in terminals.
    """

    name: str
    head: str
    form: str = "count"
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a report; `empty` is the text that is shown if it has no rows. Without columns it is only a plot."""

    name: str
    title: str
    words: str
    empty: str
    run: Analysis
    columns: tuple[Column, ...] = ()
    plot: Callable[[Rows], str] | None = None
    most: int = 1000
    """Maximum number of rows that are collected."""
    texts: Callable[[Rows], Mapping[str, str]] | None = None
    """Makes texts that a page shows below the rows, by name; cells of the form "rule" link to them."""


@dataclass(frozen=True, slots=True)
class Found:
    """A section with its rows; `more`: whether the analysis has further rows."""

    section: Section
    rows: Rows
    more: bool


def find(tables: Executor, seconds: int | None = None) -> Iterator[Found]:
    """Run the analysis of every section, one after the other.

    `seconds` is the length of an interval; None chooses it by the duration of the captures.
    """
    for section in SECTIONS:
        taken = tables.rows(section.run(seconds or 60), section.most + 1)
        rows = taken[: section.most]
        if section is _OVERVIEW and seconds is None:
            seconds = _step(rows[0])
        yield Found(section, rows, len(taken) > section.most)


def _step(overview: Mapping[str, Any]) -> int:
    first, last = overview["first"], overview["last"]
    lasted = 0.0 if first is None else (last - first).total_seconds()
    return next((one for one in _SECONDS if one * _POINTS >= lasted), _SECONDS[-1])


def _seconds(time: datetime) -> float:
    return time.replace(tzinfo=UTC).timestamp() if time.tzinfo is None else time.timestamp()


def _duration(micros: float) -> str:
    """A duration in microseconds as text for an axis: 0.1 ms, 20 ms, 1.5 s."""
    return f"{micros / 1000:g} ms" if micros < 1e6 else f"{micros / 1e6:g} s"


def _latency_plot(name: str, rows: Rows) -> str:
    drawn = [
        plots.Range(
            row[name], row["p50_us"], row["max_us"], (row["p50_us"], row["p90_us"], row["p99_us"], row["max_us"])
        )
        for row in rows[:_DRAWN]
    ]
    return plots.ranges(drawn, _duration, ("p50", "p90", "p99", "max"))


def _over_time_plot(rows: Rows) -> str:
    latencies: dict[str, list[plots.Point]] = {"p50": [], "p99": []}
    counts: dict[str, list[plots.Point]] = {"exchanges": [], "errors": []}
    for row in rows:
        when = _seconds(row["time"])
        for name, points in latencies.items():
            if row[f"{name}_us"] is not None:
                points.append((when, row[f"{name}_us"]))
        for name, points in counts.items():
            points.append((when, row[name]))
    drawn = plots.lines(latencies, _duration)
    return f"{drawn}{plots.lines(counts, FORMS['count'])}"


def _topics_plot(rows: Rows) -> str:
    ways = ("in", "out", "replicated")
    drawn = [(row["topic"] or "?", [row[f"{way}_bytes"] for way in ways]) for row in rows[:_DRAWN]]
    return plots.bars(drawn, FORMS["bytes"], ways)


def _topics_over_time_plot(rows: Rows) -> str:
    series: dict[str, list[plots.Point]] = defaultdict(list)
    moved: dict[str, int] = defaultdict(int)
    for row in rows:
        moved[row["topic"] or "?"] += row["bytes"]
    drawn = sorted(moved, key=lambda topic: -moved[topic])[:_SERIES]
    for row in rows:
        if row["topic"] in drawn and row["way"] != "replicated":
            series[f"{row['topic']} {row['way']}"].append((_seconds(row["time"]), row["bytes"]))
    return plots.lines(dict(sorted(series.items())), FORMS["bytes"])


def _rebalances_plot(rows: Rows) -> str:
    drawn = []
    for row in rows:
        if row["stable"] is None or row["began"] is None:
            continue
        end = row["stable"] if row["lasted_us"] is None else row["began"] + timedelta(microseconds=row["lasted_us"])
        words = f"generation {row['generation']}: {row['members']} members, after {FORMS['us'](row['took_us'])} ms"
        began, stable, end = map(_seconds, (row["began"], row["stable"], max(end, row["stable"])))
        drawn.append(plots.Span(row["group_id"], began, stable, end, words))
    labels = list(dict.fromkeys(row.label for row in drawn))[:_DRAWN]
    return plots.spans([row for row in drawn if row.label in labels], ("rebalancing", "stable"))


def _journeys_plot(rows: Rows) -> str:
    drawn = [
        plots.Range(
            f"{row['topic']} → {row['consumer']}", row["p50_us"], row["max_us"],
            (row["p50_us"], row["p99_us"], row["max_us"]),
        )
        for row in rows
        if row["consumer"] is not None and not row["by_broker"]
    ]  # fmt: skip
    return plots.ranges(drawn[:_DRAWN], _duration, ("p50", "p99", "max"))


_LATENCIES: Final = (
    Column("exchanges", "count"),
    Column("p50_us", "p50 ms", "us"),
    Column("p90_us", "p90 ms", "us"),
    Column("p99_us", "p99 ms", "us"),
    Column("p999_us", "p999 ms", "us"),
    Column("max_us", "max ms", "us"),
)
_FIRST_AND_LAST: Final = (Column("first", "first", "time", wide=True), Column("last", "last", "time", wide=True))


def _latencies(by: str, title: str, words: str) -> Section:
    return Section(
        f"latency_by_{by}", title, words, "No request was answered.",
        lambda _: latency.percentiles((by,)),
        (Column(by, "API" if by == "api" else by, "text"), *_LATENCIES), partial(_latency_plot, by),
    )  # fmt: skip


_OVERVIEW: Final = Section(
    "overview", "Overview", "Errors are exchanges whose response has an error code; unfinished are those that are "
    "incomplete, unanswered or unreadable. Bytes are those that the captures hold; the length fields of frames declare "
    "more if packets were captured in part.", "There are no exchanges.",
    lambda _: overview.overview(),
    (
        Column("exchanges", "exchanges"), Column("clients", "clients"), Column("brokers", "brokers"),
        Column("bytes", "bytes", "bytes"), Column("declared_bytes", "declared B", "bytes", wide=True),
        Column("errors", "errors"), Column("unfinished", "unfinished"),
        Column("anomalies", "anomalies"), Column("captures", "captures", wide=True),
        Column("first", "first", "time", wide=True), Column("last", "last", "time", wide=True),
    ),
)  # fmt: skip

SECTIONS: Final = (
    _OVERVIEW,
    Section(
        "findings", "Findings", "What is wrong, the most severe and costly first. A rule is explained by "
        "`kproxy findings --explain RULE`; `kproxy findings CAPTURE` shows the exchanges that prove it.",
        "Needs the table findings, which is written only if --tables names it; or nothing was found.",
        lambda _: findings.findings(),
        (
            Column("severity", "severity", "text"), Column("rule", "rule", "rule"), Column("findings", "findings"),
            Column("occurrences", "occurrences"), Column("impact", "impact"), Column("impact_unit", "of", "text"),
            Column("example", "the worst", "text"), Column("scopes", "about", "list", wide=True),
            Column("confidence", "sure", "text", wide=True), Column("title", "meaning", "text", wide=True),
            Column("cause", "likely cause", "text", wide=True), *_FIRST_AND_LAST,
        ),
        texts=findings.rule_texts,
    ),
    _latencies(
        "api", "Latency by API",
        "From the request's last byte to the response's. A Fetch without records waited for records, and is "
        "counted separately.",
    ),
    _latencies("client", "Latency by client", "By client id, or by address if a client has no id."),
    _latencies("broker", "Latency by broker", "By address."),
    Section(
        "over_time", "Over time",
        "An exchange belongs to the interval in which its request begins.", "There are no exchanges.",
        latency.over_time,
        (
            Column("time", "from", "time"), Column("exchanges", "count"), Column("errors", "errors"),
            Column("p50_us", "p50 ms", "us"), Column("p99_us", "p99 ms", "us"),
            Column("request_bytes", "requests B", "bytes"), Column("response_bytes", "responses B", "bytes"),
            Column("throttle_ms", "throttled ms", "ms", wide=True),
        ), _over_time_plot,
    ),
    Section(
        "errors", "Errors", "Error codes at any depth of responses.", "No response has an error code.",
        lambda _: errors.errors(),
        (
            Column("error", "error", "text"), Column("api", "API", "text"), Column("client", "client", "text"),
            Column("broker", "broker", "text"), Column("exchanges", "count"),
            Column("partitions", "partitions"), *_FIRST_AND_LAST,
        ),
    ),
    Section(
        "unfinished", "Incomplete, unanswered or unreadable exchanges", "",
        "Every exchange is complete, answered and readable.",
        lambda _: errors.unfinished(),
        (
            Column("status", "status", "text"), Column("api", "API", "text"), Column("client", "client", "text"),
            Column("broker", "broker", "text", wide=True), Column("exchanges", "count"),
            Column("reason", "reason", "text"), *_FIRST_AND_LAST,
        ),
    ),
    Section(
        "throttling", "Throttling", "Throttle times in responses, which quotas cause.",
        "No response has a throttle time.",
        lambda _: throttling.throttled(),
        (
            Column("client", "client", "text"), Column("api", "API", "text"),
            Column("broker", "broker", "text", wide=True), Column("exchanges", "count"),
            Column("throttled", "throttled"), Column("throttle_ms", "in all ms", "ms"),
            Column("max_ms", "max ms", "ms"), *_FIRST_AND_LAST,
        ),
    ),
    Section(
        "topics", "Topics", "Bytes of records fields, in (produced), out (fetched) and to replicas.",
        "No records were seen.",
        lambda _: throughput.by_topic(),
        (
            Column("topic", "topic", "text"), Column("in_bytes", "in B", "bytes"), Column("in_records", "records"),
            Column("producers", "producers"), Column("out_bytes", "out B", "bytes"), Column("out_records", "records"),
            Column("consumers", "consumers"), Column("replicated_bytes", "replicated B", "bytes", wide=True),
        ), _topics_plot,
    ),
    Section(
        "topics_over_time", "Topics over time", "The three topics with most bytes.", "No records were seen.",
        throughput.over_time, plot=_topics_over_time_plot, most=100_000,
    ),
    Section(
        "batches", "Batches that were produced", "Median bytes and records of a batch.",
        "No batch was produced.",
        lambda _: batches.sizes(),
        (
            Column("topic", "topic", "text"), Column("client", "client", "text"), Column("codec", "codec", "text"),
            Column("batches", "batches"), Column("records", "records"), Column("p50_bytes", "p50 B", "bytes"),
            Column("p50_records", "p50 records"), Column("max_bytes", "max B", "bytes", wide=True),
            Column("bytes_per_record", "B a record", "count", wide=True),
        ),
    ),
    Section(
        "compression", "Compression", "Bytes of keys, values and headers for each byte of their batches.",
        "Needs sizes of records, which `kproxy export` and `kproxy spark` write only with --record-sizes, or the table "
        "records, which they write only if --tables names it.",
        lambda _: batches.compression(),
        (
            Column("topic", "topic", "text"), Column("codec", "codec", "text"), Column("batches", "batches"),
            Column("records", "records"), Column("batch_bytes", "stored B", "bytes"),
            Column("payload_bytes", "payload B", "bytes"), Column("ratio", "ratio", "ratio"),
        ),
    ),
    Section(
        "users", "Who uses which topic", "", "No topic was named.",
        lambda _: usage.users(),
        (
            Column("topic", "topic", "text"), Column("use", "use", "text"), Column("client", "client", "text"),
            Column("exchanges", "count"), Column("bytes", "bytes", "bytes"), Column("records", "records"),
            Column("errors", "errors"), Column("groups", "groups", "list", wide=True),
            Column("addresses", "addresses", "list", wide=True), Column("software", "software", "list", wide=True),
            Column("apis", "APIs", "list", wide=True), *_FIRST_AND_LAST,
        ),
    ),
    Section(
        "versions", "Versions in use", "Versions that Kafka 4 refuses come first.", "No request was seen.",
        lambda _: versions.versions(),
        (
            Column("refused", "Kafka 4", "text"), Column("software", "software", "text"), Column("api", "API", "text"),
            Column("version", "v"), Column("exchanges", "count"), Column("between_brokers", "brokers'", "flag"),
            Column("clients", "clients", "list"), Column("addresses", "addresses", "list", wide=True),
            Column("last", "last", "time", wide=True),
        ),
    ),
    Section(
        "rebalances", "Rebalances", "Generations of groups: how long each took until every member had its assignment.",
        "No group was seen.",
        lambda _: rebalances.timeline(),
        (
            Column("group_id", "group", "text"), Column("generation", "generation"), Column("began", "began", "time"),
            Column("took_us", "took ms", "us"), Column("members", "members"), Column("leaves", "leaves"),
            Column("told_to_rejoin", "rejoins", wide=True), Column("errors", "errors", wide=True),
            Column("protocol", "protocol", "text", wide=True), Column("assignor", "assignor", "text", wide=True),
            Column("member_ids", "member ids", "list", wide=True),
        ), _rebalances_plot,
    ),
    Section(
        "journeys", "Journeys of records", "Time from the Produce to the first Fetch that brought them to a client. "
        "A row without consumer: the captures show nobody who fetched them.",
        "No Produce was acknowledged with an offset.",
        lambda _: journeys.delays(),
        (
            Column("topic", "topic", "text"), Column("producer", "producer", "text"),
            Column("consumer", "consumer", "text"), Column("batches", "batches"), Column("p50_us", "p50 ms", "us"),
            Column("p99_us", "p99 ms", "us"), Column("max_us", "max ms", "us"),
            Column("records", "records", wide=True), Column("again", "again", wide=True),
        ), _journeys_plot,
    ),
)  # fmt: skip
"""The sections in the order of a report."""
