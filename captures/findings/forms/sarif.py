"""Findings as SARIF 2.1.0 (OASIS), which code hosting services and editors show as results of an analysis."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from kproxy import __version__
from kproxy.captures.findings.forms import Json, Report
from kproxy.captures.findings.table import RULES
from kproxy.decoders.escaping import escape

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: Final = {"info": "note", "note": "note", "warn": "warning", "error": "error"}


def lines(report: Report) -> Iterator[str]:
    """Yields the lines of a SARIF log with one run. A capture is an artifact, a finding's scope a logical location."""
    run = {
        "tool": {
            "driver": {"name": "kproxy", "semanticVersion": __version__, "rules": [_rule(name) for name in RULES]}
        },
        "artifacts": [{"location": {"uri": _uri(name)}} for name in report.captures],
        "results": [_result(one, report) for one in report.findings],
        "columnKind": "unicodeCodePoints",
    }
    yield json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


def _rule(name: str) -> dict[str, Any]:
    rule = RULES[name]
    return {
        "id": name,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.meaning},
        "help": {"text": f"{rule.cause} {rule.verify}"},
        "defaultConfiguration": {"level": _LEVELS[rule.severity.name.lower()]},
    }


def _result(one: Json, report: Report) -> dict[str, Any]:
    scope = one["scope"]
    where: dict[str, Any] = {"logicalLocations": [{"name": escape(scope["name"]), "kind": scope["kind"]}]}
    if report.captures:
        # SARIF allows one file for each result, so this names the first capture, though the finding may be based on all
        where["physicalLocation"] = {"artifactLocation": {"uri": _uri(report.captures[0]), "index": 0}}
    return {
        "ruleId": one["rule"],
        "ruleIndex": list(RULES).index(one["rule"]),
        "level": _LEVELS[one["severity"]],
        "message": {"text": f"{escape(one['summary'])}. {escape(one['cause'])}"},
        "locations": [where],
        "relatedLocations": [
            {"id": place, "message": {"text": escape(_evidence(proof))}} for place, proof in enumerate(one["evidence"])
        ],
        "partialFingerprints": {"kproxyFinding/v1": one["id"]},
        "occurrenceCount": one["occurrences"],
        "properties": {
            "confidence": one["confidence"],
            "firstTime": one["first_time"],
            "lastTime": one["last_time"],
            "exchanges": [proof["exchange"] for proof in one["evidence"] if proof["exchange"]],
            "fixes": [fix["why"] for fix in one["fixes"]],
            "parent": one["parent"],
        },
    }


def _evidence(proof: Json) -> str:
    number = f"exchange {proof['exchange']}" if proof["exchange"] else f"connection {proof['connection'] or '?'}"
    return f"{proof['time']} {number}: {proof['note']}"


def _uri(name: str) -> str:
    return name if "://" in name else quote(name, errors="surrogateescape")
