"""Finds records that are spread unevenly over the partitions of a topic, and producers with different partitioners."""

from __future__ import annotations

from statistics import median
from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import SECOND, Analysis, Analyzer, Context, Key, at_evidence, remember
from kproxy.captures.findings.model import Actor, Confidence, Impact, Scope, Severity
from kproxy.captures.partitioner import Keys

HOT = "partition.hot"
SKEW = "key.skew"
MIX = "key.partitioner_mix"
PARTITIONS: Final = 10_000
"""Maximum number of partitions of a topic that are remembered."""
CLIENTS: Final = 64
"""Maximum number of producers that are remembered for a topic, or for a partition."""
COUNTERS: Final = 64
"""Maximum number of keys that are counted at a time; a further key replaces the least frequent one (space-saving)."""
HOUR: Final = 3_600 * SECOND
SHOWN: Final = 40
"""Maximum number of bytes of a key in a finding's text."""
SAME_KEYS: Final = 3
"""If two producers send this number of common keys to different partitions, their partitioners certainly differ."""


class Load:
    """The batches and bytes that a partition received within the present window."""

    __slots__ = ("at", "batches", "clients", "size")

    def __init__(self, at: facts.At) -> None:
        self.at = at
        self.batches = self.size = 0
        self.clients: dict[str, int] = {}


class Hot(Analyzer):
    """For one topic, finds a partition that receives far more bytes than the median partition."""

    __slots__ = ("_began", "_context", "_last", "_loads")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._began = self._last = 0
        self._loads: dict[int, Load] = {}

    def feed(self, fact: facts.Volume) -> None:
        time = fact.at.time
        if not self._loads:
            self._began = self._last = time
        elif time - self._began >= self._window:
            self._judge()
            self._loads.clear()
            self._began = self._last = time
        self._last = max(self._last, time)
        load = self._loads.get(fact.partition)
        if load is None:
            load = Load(fact.at)
            remember(self._loads, fact.partition, load, PARTITIONS)
        load.at = fact.at
        load.size += fact.size
        load.batches += fact.batches
        client = fact.at.client
        remember(load.clients, client, load.clients.get(client, 0) + fact.size, CLIENTS)

    def close(self) -> None:
        if self._last - self._began >= self._window * 0.9:
            self._judge()

    @property
    def _window(self) -> float:
        return self._context.limit(HOT, "window_s") * SECOND

    def _judge(self) -> None:
        loads, limit = self._loads, self._context.limit
        total, batches = sum(one.size for one in loads.values()), sum(one.batches for one in loads.values())
        if len(loads) < limit(HOT, "partitions") or total < limit(HOT, "bytes"):
            return
        if batches < limit(HOT, "batches") * len(loads):
            return
        partition, load = max(loads.items(), key=lambda one: (one[1].size, -one[0]))
        middle = max(1.0, median(one.size for one in loads.values()))
        share, times = load.size / total, load.size / middle
        if times < limit(HOT, "times"):
            return
        client, size = max(load.clients.items(), key=lambda one: (one[1], one[0]))
        place = f"{self._context.key}-{partition}"
        note = f"{place} got {load.size} of {total} bytes, {client} sent {size / max(1, load.size):.0%} of them"
        self._context.report(
            HOT,
            at_evidence(load.at, "trigger", note, weight=share),
            numbers={
                "topic": self._context.key, "partition": place, "share": share, "times": times,
                "partitions": len(loads), "client": client, "part": size / max(1, load.size),
                "seconds": self._context.limit(HOT, "window_s"),
            },
            impact=Impact("bytes_wasted", load.size - middle),
            scope=Scope("partition", place),
            severity=Severity.WARN if share >= limit(HOT, "share") else Severity.NOTE,
            actors=(Actor("culprit", load.at.peer, load.at.client_id or None),),
        )  # fmt: skip


class Skew(Analyzer):
    """For one topic, finds keys that a large share of an hour's records have; estimated from samples."""

    __slots__ = ("_began", "_context", "_counts", "_errors", "_known", "_read", "_seen", "_total")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known = 0
        """Number of partitions in the latest Metadata; `_seen` are the partitions that got records."""
        self._seen: dict[int, None] = {}
        self._restart(0)

    def _restart(self, time: int) -> None:
        self._began = time
        self._read = 0
        self._total = 0.0
        """Number of records for which the samples stand."""
        self._counts: dict[bytes, float] = {}
        self._errors: dict[bytes, float] = {}
        """Maps each counted key to the maximum by which its count may be too high."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.TopicView):
            if not fact.error:
                self._known = fact.partitions
            return
        found = fact.content
        if not found.read:
            return
        remember(self._seen, fact.partition, None, PARTITIONS)
        if fact.at.time - self._began >= HOUR:
            self._restart(fact.at.time)
        weight = fact.weight / found.read
        self._read += found.read
        self._total += fact.weight
        for key, count in found.keys:
            self._add(key, count * weight)
        enough = self._total >= self._context.limit(SKEW, "records") and self._read >= self._context.limit(SKEW, "read")
        if self._counts and enough:
            self._judge(fact)

    def _add(self, key: bytes, weight: float) -> None:
        counts = self._counts
        if key in counts:
            counts[key] += weight
        elif len(counts) < COUNTERS:
            counts[key], self._errors[key] = weight, 0.0
        else:
            least = min(counts, key=counts.__getitem__)
            error = counts.pop(least)
            del self._errors[least]
            counts[key], self._errors[key] = error + weight, error

    def _judge(self, fact: facts.Sample) -> None:
        key = max(self._counts, key=lambda one: self._counts[one] - self._errors[one])
        share = (self._counts[key] - self._errors[key]) / max(1.0, self._total)
        if share < self._context.limit(SKEW, "share") or max(self._known, len(self._seen)) < 2:
            return
        if not any(one == key for one, _ in fact.content.keys):
            return  # this sample lacks the key: the next one that has it is the evidence
        at, text = fact.at, _key_text(key)
        self._context.report(
            SKEW,
            at_evidence(at, "trigger", f"records with the key {text} in {fact.topic}-{fact.partition}", weight=share),
            numbers={
                "topic": fact.topic, "key": text, "share": share, "partition": fact.partition, "records": self._read,
                "client": at.client,
            },
            impact=Impact("requests", round(self._counts[key])),
            episode=text,
            actors=(Actor("culprit", at.peer, at.client_id or None),),
        )  # fmt: skip


def _key_text(key: bytes) -> str:
    """A key as text for findings: its characters if it is printable UTF-8, otherwise hexadecimal."""
    cut = key[:SHOWN]
    try:
        text = cut.decode() if len(key) <= SHOWN else cut.decode(errors="ignore")
    except UnicodeDecodeError:
        text = cut.hex(" ")
    else:
        text = text if text.isprintable() else cut.hex(" ")
    return text + ("…" if len(key) > SHOWN else "")


class Mix(Analyzer):
    """For one topic, finds producers that compute the partition from the key by different functions."""

    __slots__ = ("_clients", "_context", "_known", "_reported")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known = 0
        self._clients: dict[str, tuple[Keys, facts.At]] = {}
        """Maps each producer to its first keys with their partitions, and to the latest sampled exchange."""
        self._reported: dict[tuple[str, str], bool] = {}
        """Maps each reported pair of producers to whether a key of both went to different partitions."""

    def feed(self, fact: Any) -> None:
        if isinstance(fact, facts.TopicView):
            if not fact.error and fact.partitions != self._known:
                self._known = fact.partitions
                self._clients.clear()  # with another number of partitions, the same key may go to another partition
            return
        client = fact.at.client
        if not self._known:
            return
        keys, _ = self._clients.get(client, (None, None))
        if keys is None:
            keys = Keys()
            remember(self._clients, client, (keys, fact.at), CLIENTS)
        if keys.full:
            return
        for key, _ in fact.content.keys:
            keys.add(key, fact.partition)
        self._clients[client] = keys, fact.at
        if len(keys.hashes) >= self._context.limit(MIX, "keys") and not keys.moved:
            self._compare(client, keys, fact.at)

    def _compare(self, client: str, keys: Keys, at: facts.At) -> None:
        least = self._context.limit(MIX, "keys")
        for other, (others, place) in list(self._clients.items()):
            pair = min(client, other), max(client, other)
            if other == client or others.moved or len(others.hashes) < least or self._reported.get(pair):
                continue
            mine, theirs = keys.fitting(self._known), others.fitting(self._known)
            apart = sum(keys.hashes[one] != others.hashes[one] for one in keys.hashes.keys() & others.hashes.keys())
            differ = bool(mine and theirs) and not set(mine) & set(theirs)
            if apart >= SAME_KEYS or (differ and (apart or pair not in self._reported)):
                remember(self._reported, pair, apart > 0, CLIENTS)
                self._report(
                    (client, " or ".join(mine) or UNKNOWN, at), (other, " or ".join(theirs) or UNKNOWN, place), apart
                )

    def _report(self, one: tuple[str, str, facts.At], other: tuple[str, str, facts.At], apart: int) -> None:
        first, second = sorted((one, other), key=lambda each: each[0])
        self._context.report(
            MIX,
            *(at_evidence(at, "trigger", f"{who} chooses partitions by {how}") for who, how, at in (first, second)),
            numbers={
                "topic": self._context.key, "first": first[0], "one": first[1], "second": second[0],
                "other": second[1], "apart": apart, "partitions": self._known,
            },
            impact=Impact("records_at_risk", apart),
            episode=(first[0], second[0]),
            severity=None if apart else Severity.NOTE,
            confidence=Confidence.PROVEN if apart >= SAME_KEYS else None,
            actors=tuple(Actor("culprit", at.peer, at.client_id or None) for _, _, at in (first, second)),
        )  # fmt: skip


UNKNOWN: Final = "a function of its own"

ANALYSES = (
    Analysis(frozenset({HOT}), Key.TOPIC, (facts.Volume,), Hot),
    Analysis(frozenset({SKEW}), Key.TOPIC, (facts.Sample, facts.TopicView), Skew),
    Analysis(frozenset({MIX}), Key.TOPIC, (facts.Sample, facts.TopicView), Mix),
)
