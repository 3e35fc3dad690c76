"""Findings as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kproxy.captures.export.page import STYLE, html_text
from kproxy.captures.findings.forms import Json, Report
from kproxy.captures.findings.text import closing_line, evidence_place, fix_text

_STYLE: Final = """
.finding { margin: 0 0 1em 0 } .finding > summary { font-size: 15px; padding: .2em 0 }
.error { color: #a3231f; font-weight: 600 } .warn { color: #8a5a00; font-weight: 600 }
th { font-weight: 400; color: #77808a; white-space: nowrap } .symptoms { margin-left: 2em }
@media (prefers-color-scheme: dark) { .error { color: #ff8a84 } .warn { color: #ffc46b } }
"""


def lines(report: Report) -> Iterator[str]:
    """Yields the lines of an HTML page: a collapsible section for each finding, with its symptoms inside."""
    title = html_text("Findings: " + ", ".join(report.captures))
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f"<title>{title}</title><style>{STYLE}{_STYLE}</style></head><body>"
    yield f"<h1>{title}</h1>"
    yield f"<p>{html_text(closing_line(len(report.findings) + report.hidden, report.hidden))}</p>"
    open_ids: list[str] = []
    for one in report.findings:
        while open_ids and open_ids[-1] != one["parent"]:
            open_ids.pop()
            yield "</details>"
        yield from _finding(one)
        open_ids.append(one["id"])
    yield "</details>" * len(open_ids)
    yield "</body></html>"


def _finding(one: Json) -> Iterator[str]:
    times = f" ({one['occurrences']}x)" if one["occurrences"] > 1 else ""
    open_ = " open" if one["severity"] in {"warn", "error"} else ""
    nested = " symptoms" if one["parent"] else ""
    yield f'<details class="finding{nested}" id="{one["id"]}"{open_}><summary>'
    yield f'<span class="{one["severity"]}">{one["severity"].upper()}</span> {one["rule"]}: '
    yield f"{html_text(one['summary'])}{times}</summary><table>"
    rows = [("cause", f"{one['cause']} ({one['confidence']})")]
    rows += [(f"fix ({fix['side']})", fix_text(fix)) for fix in one["fixes"]]
    rows += [("verify", one["verify"]), *(("unknown", text) for text in one["unknown"])]
    rows += [("less certain", f"{number} {what}") for what, number in one["coverage"].items()]
    rows += [
        (f"{proof['time'][11:23]} {evidence_place(proof)}", f"{proof['role']}: {proof['note']}")
        for proof in one["evidence"]
    ]
    for name, text in rows:
        yield f"<tr><th>{html_text(name)}</th><td>{html_text(text)}</td></tr>"
    yield "</table>"
