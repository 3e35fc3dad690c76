"""Findings and rules as lines of text; what comes from the wire is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kproxy.captures.findings.rule import Rule
from kproxy.decoders.escaping import escape
from kproxy.decoders.plurals import counted


def findings_text(lines: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Objects of schema "kproxy.finding/1": one line each, then what is behind it. A symptom is indented."""
    depths: dict[str, int] = {}
    for one in lines:
        depth = depths[one["id"]] = depths.get(one["parent"], -1) + 1
        margin = "    " * depth
        for text in _finding(one):
            yield margin + text


def _finding(one: Mapping[str, Any]) -> Iterator[str]:
    times = f" ({one['occurrences']}x)" if one["occurrences"] > 1 else ""
    yield f"{one['severity'].upper():<5} {one['rule']}  {escape(one['summary'])}{times}"
    sure = "" if one["confidence"] == "proven" else f" ({one['confidence']})"
    yield f"      cause{sure}: {escape(one['cause'])}"
    for proof in one["evidence"]:
        number = f"#{proof['exchange']}" if proof["exchange"] else f"connection {proof['connection'] or '?'}"
        yield f"      {proof['time'][11:23]} {number:<8} {escape(proof['note'])}"
    for fix in one["fixes"]:
        advice = {"Java": fix["java"], "librdkafka": fix["librdkafka"]}
        given = [f"{name}: {text}" for name, text in advice.items() if text]
        if fix["java"] == fix["librdkafka"] and fix["java"]:
            given = [fix["java"]]
        yield f"      fix ({fix['side']}): {'; '.join([*given, fix['why']])}"
    yield f"      verify: {one['verify']}"
    for text in one["unknown"]:
        yield f"      unknown: {text}"
    for what, number in one["coverage"].items():
        yield f"      less sure: {number} {what}"


def closing_line(found: int, hidden: int) -> str:
    """How many findings there are, and how many of them are not shown."""
    return counted(found, "finding") + (f", {hidden} below the severity that is shown" if hidden else "")


def rule_text(rule: Rule, limits: Mapping[str, float] | None = None) -> Iterator[str]:
    """All that the table says of a rule."""
    yield f"{rule.id} (#{rule.number}): {rule.title}"
    yield f"  severity    {rule.severity.name}, {rule.confidence.name.lower()}"
    yield f"  needs       {rule.vantage}"
    yield f"  meaning     {rule.meaning}"
    yield f"  cause       {rule.cause}"
    for guard in rule.guards:
        yield f"  guard       {guard}"
    for one in rule.thresholds:
        value = (limits or {}).get(f"{rule.id}.{one.name}", one.default)
        yield f"  threshold   {one.name} = {value:g} {one.unit}: {one.meaning}"
    for fix in rule.fixes:
        yield f"  fix         {fix.side}: {fix.why}"
        for name, text in (("Java", fix.java), ("librdkafka", fix.librdkafka)):
            if text:
                yield f"    {name:<11} {text}"
    yield f"  verify      {rule.verify}"
    for text in rule.unknown:
        yield f"  unknown     {text}"
    if rule.under:
        yield f"  folds under {', '.join(rule.under)}"
