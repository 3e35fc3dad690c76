"""Writes one exchange as a self-contained HTML page: facts, fields with their meanings, bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape as html_escape

from kproxy.captures.export import Reading
from kproxy.captures.export.frame_fields import frame_fields
from kproxy.captures.export.nodes import Style, hex_lines, title
from kproxy.captures.export.oneline import health_note
from kproxy.captures.text import RESULTS, api_text, latency_text
from kproxy.decoders.escaping import escape
from kproxy.decoders.exchange import Exchange, Frame, Health, Status, StreamProblem
from kproxy.decoders.exchange_json import exchange_json, timestamp
from kproxy.decoders.plurals import counted
from kproxy.decoders.tree import Node
from kproxy.decoders.view import View

STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; color: #1c2127 }
table { border-collapse: collapse } th { text-align: left; padding-right: 2em; font-weight: 600 }
td, th { vertical-align: top; padding-block: .1em }
details { margin-left: 1.2em } summary, .leaf { font-family: ui-monospace, monospace; font-size: 13px }
.leaf { margin-left: 2.2em } .at { color: #77808a } .type { color: #3d6b99 }
.problem { color: #a3231f; font-weight: 600 }
pre { background: #f3f4f6; padding: 1em; overflow-x: auto; font-size: 12px }
@media (prefers-color-scheme: dark) {
  body { background: #16181c; color: #dfe3e8 } pre { background: #20242a } .type { color: #7fb2e5 }
  .problem { color: #ff8a84 }
}
"""
_MOST_BYTES = 1 << 16
"""Maximum number of bytes of a frame that are dumped."""


class Page:
    """Writes a page of exchanges, one below the other, and the reading's health (a captures.export.Lines)."""

    problems = 0

    def __init__(self, reader: Reading, view: View | None = None) -> None:
        self._reader = reader
        self._view = view or View()

    def begin(self) -> bytes:
        head = '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Kafka exchange</title>'
        return f"{head}<style>{STYLE}</style></head><body>\n".encode()

    def lines(self, items: Sequence[Exchange | StreamProblem | Health]) -> bytes:
        parts = [part for item in items for part in self._parts(item)]
        return "".join(f"{part}\n" for part in parts).encode("utf-8", "replace")

    def end(self) -> bytes:
        return b"</body></html>\n"

    def _parts(self, item: Exchange | StreamProblem | Health) -> Iterator[str]:
        if isinstance(item, Exchange):
            yield from self._exchange(item)
        elif isinstance(item, Health):
            yield f"<h2>Capture health</h2>\n<p>{html_text(health_note(item) or 'nothing is missing')}</p>"

    def _exchange(self, exchange: Exchange) -> Iterator[str]:
        reader = self._reader
        line = exchange_json(
            exchange, reader.source, reader.definitions, view=self._view, precision=reader.precision,
            health=reader.health,
        )  # fmt: skip
        api = api_text(
            reader.definitions, exchange.api_key, exchange.api_version, token=exchange.token, protocol=exchange.protocol
        )
        yield f"<h1>{html_text(api)}</h1>"
        latency = exchange.latency_ns
        facts = {
            "exchange": exchange.number,
            "client": exchange.connection.client,
            "broker": exchange.connection.broker,
            "client id": exchange.client_id,
            "correlation id": exchange.correlation_id,
            "status": RESULTS[Status(line["status"])] + (f": {exchange.reason}" if exchange.reason else ""),
            "errors": " ".join(line["error_codes"]),
            "latency": "" if latency is None else f"{latency_text(latency)} ms".replace("s ms", "s"),
        }
        rows = (f"<tr><th>{name}</th><td>{html_text(str(fact))}</td></tr>" for name, fact in facts.items() if fact)
        yield f"<table>{''.join(rows)}</table>"
        if line["problems"]:
            yield "<ul>"
            for problem in line["problems"]:
                words = f"{problem['where']} byte {problem['offset']} {problem['path']}: {problem['message']}"
                yield f'<li class="problem">{html_text(words)}</li>'
            yield "</ul>"
        for where, frame in (("Request", exchange.request), ("Response", exchange.response)):
            if frame is not None:
                yield from self._frame(where, frame, exchange)

    def _frame(self, where: str, frame: Frame, exchange: Exchange) -> Iterator[str]:
        yield f"<h2>{where}</h2>"
        yield f"<p>{timestamp(frame.time, self._reader.precision)}, {counted(frame.size, 'byte')}</p>"
        for comment in frame.comments:
            yield f"<p>{html_text(comment)}</p>"
        if exchange.status is Status.TLS:
            return
        shown = frame_fields(exchange, frame, self._reader.source, self._reader.definitions, self._view, width=120)
        data, root, style = shown.data, shown.root, shown.style
        if root is None:
            withheld = "" if self._view.show_secrets else ", withheld"
            yield f"<p>SASL token, {counted(len(data) - 4, 'byte')}{withheld}</p>"
            return
        if shown.guess:
            yield f"<p>{html_text(shown.guess)}</p>"
        for node in root.children:
            yield from _node(node, style)
        dump = "\n".join(hex_lines(root, data[:_MOST_BYTES], style))
        yield f"<details><summary>bytes</summary><pre>{html_text(dump, lines=True)}</pre></details>"


def _node(node: Node, style: Style) -> Iterator[str]:
    size = node.end - node.start
    span = f"{node.start}-{node.end - 1}" if size > 1 else str(node.start) if size else ""
    kind = f' <span class="type">{html_text(node.type)}</span>' if node.type else ""
    words = f"{html_text(title(node))}{kind} {html_text(style.explained(node))}"
    line = f'{words} <span class="at">{span}{"" if node.buffer is None else " (decompressed)"}</span>'
    problem = style.problem(node)
    if problem:
        line += f' <span class="problem">{html_text(problem)}</span>'
    children = [] if style.withholds(node) else node.children
    if not children:
        yield f'<div class="leaf">{line}</div>'
        return
    yield f"<details open><summary>{line}</summary>"
    for child in children:
        yield from _node(child, style)
    yield "</details>"


def html_text(text: str, *, lines: bool = False) -> str:
    """Text from the wire escaped for HTML, without bidirectional control characters; `lines` keeps line ends."""
    parts = text.split("\n") if lines else [text]
    return "\n".join(html_escape(escape(part)) for part in parts)
