"""What notebooks show of captures and exchanges: HTML in which text from the wire is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kproxy.captures.export.page import html_text

Line = Mapping[str, Any]
"""An exchange: the object "kproxy.exchange/1"."""

ROWS: Final = 20
"""Maximum number of exchanges in the table of a capture."""
MOST_TEXT: Final = 20_000
"""Maximum number of characters of a body that are shown."""
_HEAD: Final = ("exchange", "time", "API", "client", "broker", "latency ms", "status")


def capture_html(title: str, lines: Sequence[Line], note: str) -> str:
    """The first exchanges of a capture, at most ROWS, as an HTML table.

    Below it is a note that there are more, or else `note`: why the capture could not be read.
    """
    more = f"the first {ROWS} exchanges" if len(lines) > ROWS else note
    below = f"<p>{html_text(more)}</p>" if more else ""
    return f"<p>{html_text(title)}</p>{_table(lines[:ROWS])}{below}"


def exchange_html(line: Line) -> str:
    """An exchange as a table of its headers, with errors, problems and both bodies below it."""
    return _table([line]) + "".join(_details(line))


def _table(lines: Iterable[Line]) -> str:
    head = "".join(f"<th>{name}</th>" for name in _HEAD)
    return f"<table><tr>{head}</tr>{''.join(map(_row, lines))}</table>"


def _row(line: Line) -> str:
    version = "" if line["api_version"] is None else f" v{line['api_version']}"
    latency = "" if line["latency_ms"] is None else f"{line['latency_ms']:.3f}"
    time = (line["request"] or line["response"])["timestamp"]
    cells = (
        line["exchange"], time, f"{line['api']}{version}", line["client"], line["broker"], latency, line["status"],
    )  # fmt: skip
    return "<tr>" + "".join(f"<td>{html_text(str(cell))}</td>" for cell in cells) + "</tr>"


def _details(line: Line) -> Iterator[str]:
    if line["error_codes"]:
        yield f"<p>errors: {html_text(', '.join(line['error_codes']))}</p>"
    for problem in line["problems"]:
        words = f"{problem['where']} byte {problem['offset']}: {problem['message']}"
        yield f"<p>{html_text(words)}</p>"
    for name in ("request", "response"):
        body = None if line[name] is None else line[name]["body"]
        if body is not None:
            text = json.dumps(body, indent=2, ensure_ascii=False)
            cut = "\n…" if len(text) > MOST_TEXT else ""
            shown = html_text(text[:MOST_TEXT] + cut, lines=True)
            yield f"<details><summary>{name}</summary><pre>{shown}</pre></details>"
