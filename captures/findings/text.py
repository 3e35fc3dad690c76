"""Formats findings and rules as lines of text; text from the wire is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from kproxy.captures.findings.model import finding_json
from kproxy.captures.findings.rule import Rule
from kproxy.decoders.escaping import escape
from kproxy.decoders.plurals import counted

if TYPE_CHECKING:
    from kproxy.captures.findings.live import News

LEAST_BETWEEN: Final = 2
"""Minimum number of pieces of evidence that are left out between two that say the same."""
SHORT_ID: Final = 8
"""Number of characters of a finding's id in texts; `kproxy export --finding` accepts any prefix of an id."""


def findings_text(lines: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yields lines of text for objects "kproxy.finding/1": a line for the finding, then its evidence and fixes.

    The objects must be in the order of `correlate`; symptoms are indented.
    """
    depths: dict[str, int] = {}
    for one in lines:
        depth = depths[one["id"]] = depths.get(one["parent"], -1) + 1
        margin = "    " * depth
        for text in _finding(one):
            yield margin + text


def _finding(one: Mapping[str, Any]) -> Iterator[str]:
    summary = f"{escape(one['summary'])}{times_text(one)} [{one['id'][:SHORT_ID]}]"
    yield f"{one['severity'].upper():<5} {one['rule']}  {summary}"
    sure = "" if one["confidence"] == "proven" else f" ({one['confidence']})"
    yield f"      cause{sure}: {escape(one['cause'])}"
    yield from _evidence(one["evidence"])
    for fix in one["fixes"]:
        yield f"      fix ({fix['side']}): {fix_text(fix)}"
    yield f"      verify: {one['verify']}"
    for text in one["unknown"]:
        yield f"      unknown: {text}"
    for what, number in one["coverage"].items():
        yield f"      less certain: {number} {what}"


def _evidence(proofs: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each piece of evidence; of many in a row that say the same, only for the first and the last."""
    for note, alike in groupby(proofs, key=itemgetter("note")):
        first, *others = alike
        yield _proof(first, note)
        if len(others) > LEAST_BETWEEN:
            yield _proof(others[-1], f"the same; {len(others) - 1} more in between")
        else:
            yield from (_proof(one, note) for one in others)


def _proof(one: Mapping[str, Any], note: str) -> str:
    return f"      {one['time'][11:23]} {evidence_place(one):<8} {escape(note)}"


def news_line(news: News, *, as_json: bool = False) -> str:
    """One line about a change of a finding: "FINDING opened WARN …", or the finding's JSON object."""
    one = finding_json(news.finding)
    if as_json:
        return json.dumps(one)
    severity, summary = one["severity"].upper(), escape(one["summary"])
    return f"FINDING {news.change} {severity} {one['rule']}  {summary} [{one['id'][:SHORT_ID]}]"


def times_text(one: Mapping[str, Any]) -> str:
    """The number of a finding's occurrences as text, " (3x)"; "" for one."""
    return f" ({one['occurrences']}x)" if one["occurrences"] > 1 else ""


def evidence_place(proof: Mapping[str, Any]) -> str:
    """The place of a piece of evidence: "#12" for an exchange, otherwise "connection 3"."""
    return f"#{proof['exchange']}" if proof["exchange"] else f"connection {proof['connection'] or '?'}"


def fix_text(fix: Mapping[str, Any]) -> str:
    """A fix as text: the settings for the Java client and for librdkafka, and why they help."""
    advice = {"Java": fix["java"], "librdkafka": fix["librdkafka"]}
    settings = [f"{name}: {text}" for name, text in advice.items() if text]
    if fix["java"] == fix["librdkafka"] and fix["java"]:
        settings = [fix["java"]]
    return "; ".join([*settings, fix["why"]])


def closing_line(found: int, hidden: int) -> str:
    """A line with the number of shown findings, and the number of hidden ones."""
    return counted(found, "finding") + (f", {hidden} not shown" if hidden else "")


def rule_text(rule: Rule, limits: Mapping[str, float] | None = None) -> Iterator[str]:
    """Yields a rule's row as lines of text."""
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
