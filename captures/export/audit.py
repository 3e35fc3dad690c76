"""Writes the upgrade audit (`captures.analysis.audit`) as CSV for spreadsheets, and as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kproxy.captures.export.page import STYLE, html_text
from kproxy.captures.export.rows import quoted
from kproxy.decoders.escaping import in_sheet
from kproxy.decoders.plurals import counted

Json = Mapping[str, Any]

COLUMNS: Final = (
    "verdict", "host", "client_id", "principals", "software", "negotiates", "api", "api_key", "version", "served",
    "offered_highest", "refused_by", "message_formats", "count", "first", "last", "first_exchange", "loses", "why",
    "groups", "topics", "more_names",
)  # fmt: skip
"""The columns of the CSV: names of members of a row of "kproxy.audit/1". Lists in cells are joined by spaces."""
MEANINGS: Final = {
    "cut-off": "refused after the upgrade",
    "unsure": "refused, but the client may be able to speak another version",
    "deprecated": "still served, but deprecated",
    "broker": "sent by a broker, which is upgraded with the cluster",
}
_SHOWN: Final = (
    ("verdict", "verdict"), ("client", "client"), ("principals", "principal"), ("software", "software"),
    ("api", "API"), ("served", "served"), ("count", "times"), ("first", "first seen"), ("last", "last seen"),
    ("loses", "what is lost"), ("why", "why"), ("groups", "groups"), ("topics", "topics"),
)  # fmt: skip
_TABLE_STYLE: Final = """
body { max-width: none } td, th { padding: .25em .8em .25em 0; border-bottom: 1px solid #d0d4d9 }
.cut-off { color: #a3231f; font-weight: 600 } .unsure { color: #8a5a00; font-weight: 600 }
@media (prefers-color-scheme: dark) { .cut-off { color: #ff8a84 } .unsure { color: #ffc46b } }
"""


def csv_lines(result: Json) -> Iterator[str]:
    """The CSV's header and a line for each row of the audit; control characters are escaped, and formulas are made
    text.
    """
    yield ",".join(COLUMNS)
    for row in result["rows"]:
        yield ",".join(quoted(in_sheet(_cell(row[name]))) for name in COLUMNS)


def page(result: Json) -> Iterator[str]:
    """The audit as lines of an HTML page; text from the wire is escaped."""
    heading = html_text(f"Upgrade audit: {target(result)}")
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f"<title>{heading}</title><style>{STYLE}{_TABLE_STYLE}</style></head><body>"
    yield f"<h1>{heading}</h1>"
    for note in notes(result):
        yield f"<p>{html_text(note)}</p>"
    yield "<ul>"
    for verdict, count in result["verdicts"].items():
        yield f'<li><span class="{verdict}">{verdict}</span>: {count} ({MEANINGS[verdict]})</li>'
    yield "</ul>"
    if result["rows"]:
        yield f"<table><tr>{''.join(f'<th>{title}</th>' for _, title in _SHOWN)}</tr>"
        for row in result["rows"]:
            shown = {
                **row, "client": who(row), "api": f"{row['api']} v{row['version']}", "served": served(row),
                "first": second(row["first"]), "last": second(row["last"]),
            }  # fmt: skip
            cells = "".join(f"<td>{html_text(_cell(shown[name], ', '))}</td>" for name, _ in _SHOWN[1:])
            yield f'<tr><td class="{row["verdict"]}">{row["verdict"]}</td>{cells}</tr>'
        yield "</table>"
    yield "</body></html>"


def target(result: Json) -> str:
    return f"Kafka {result['target']}" if result["target"] else f"the cluster of {result['against']}"


def notes(result: Json) -> Iterator[str]:
    """Sentences on what the audit covers and leaves out: time watched, exchanges that could not be judged, limits."""
    watched, left_out = result["watched"], result["left_out"]
    if watched["from"] is None:
        yield "The captures have no exchanges."
    else:
        yield (
            f"Watched {second(watched['from'])} to {second(watched['to'])}: {watched['seconds']:.1f} s, traffic in "
            f"{watched['share_of_day']:.2%} of the minutes of a day, {counted(watched['exchanges'], 'exchange')}, "
            f"{counted(result['clients'], 'client')}. Clients that were silent then are not listed."
        )
    for name, what in (("without_request", "request"), ("without_response", "response")):
        if watched[name]:
            yield f"{counted(watched[name], 'exchange')} without a {what} in the capture."
    if watched["encrypted"]:
        yield f"{counted(watched['encrypted'], 'encrypted exchange')} could not be judged (--keylog decrypts them)."
    for name, count in left_out.items():
        if count:
            yield f"Left out, because the audit has limits: {count} {name}."


def few(names: Sequence[str], most: int = 5) -> str:
    """The first `most` names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def who(row: Json) -> str:
    return f"{row['client_id'] or '(no client id)'}@{row['host']}"


def second(time: str) -> str:
    """A time like "2026-11-21T05:48:00Z", without the fraction of its second."""
    return f"{time[:19]}Z"


def served(row: Json) -> str:
    return row["served"] or "none"


def _cell(value: Any, between: str = " ") -> str:
    if isinstance(value, list):
        return between.join(map(str, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
