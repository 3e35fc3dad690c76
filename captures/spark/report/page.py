"""Writes a report as a self-contained HTML file: tables and plots, light and dark, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape as html_escape
from typing import Any

from kproxy.captures.spark.report import forms
from kproxy.captures.spark.report.sections import Column, Found
from kproxy.decoders.escaping import escape

_STYLE = """
:root { color-scheme: light dark; --fg: #1c2127; --bg: #fff; --soft: #f3f4f6; --line: #d8dce1; --dim: #5d6670;
  --c0: #2b6cb0; --c1: #d9822b; --c2: #29876a; --c3: #b8405e; --c4: #7157b5; --c5: #6f7680 }
@media (prefers-color-scheme: dark) { :root { --fg: #dfe3e8; --bg: #16181c; --soft: #20242a; --line: #363c44;
  --dim: #98a2ad; --c0: #6fb1f0; --c1: #f0a860; --c2: #5cc9a4; --c3: #f08aa2; --c4: #b39df0; --c5: #a9b1ba } }
body { font: 14px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76em; padding: 1.5em; color: var(--fg);
  background: var(--bg) }
h1 { font-size: 1.5em; margin-bottom: 0 } h2 { font-size: 1.15em; margin: 2.2em 0 .2em }
p { color: var(--dim); margin: 0 0 .8em }
nav { display: flex; flex-wrap: wrap; gap: .2em 1.2em } a { color: var(--c0) }
.rows { overflow: auto; max-height: 28em } table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th { position: sticky; top: 0; background: var(--soft); font-weight: 600 }
th, td { padding: .15em .9em .15em .4em; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap }
td.n, th.n { text-align: right } td { max-width: 30em; overflow: hidden; text-overflow: ellipsis }
pre { white-space: pre-wrap } figure { margin: .5em 0 1em } figcaption span { margin-right: 1.2em; color: var(--dim) }
svg { width: 100%; height: auto } text { font-size: 12px; fill: var(--dim) }
.grid { stroke: var(--line) } .axis { stroke: var(--dim) } .stroke { fill: none; stroke-width: 1.5; stroke: var(--c) }
.fill { fill: var(--c) } .key { display: inline-block; width: .8em; height: .8em; margin-right: .4em;
  background: var(--c) }
.c0 { --c: var(--c0) } .c1 { --c: var(--c1) } .c2 { --c: var(--c2) } .c3 { --c: var(--c3) } .c4 { --c: var(--c4) }
.c5 { --c: var(--c5) }
"""


def page(title: str, results: Iterable[Found]) -> str:
    """The HTML of a report with these sections."""
    return "\n".join(_parts(title, list(results))) + "\n"


def _parts(title: str, found: list[Found]) -> Iterator[str]:
    name = _text(title)
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{_STYLE}</style></head><body>\n<h1>Kafka traffic</h1><p>{name}. Times are UTC.</p>"
    links = (f'<a href="#{one.section.name}">{_text(one.section.title)}</a>' for one in found)
    yield f"<nav>{''.join(links)}</nav>"
    for one in found:
        yield from _section(one)
    yield "</body></html>"


def _section(found: Found) -> Iterator[str]:
    section = found.section
    yield f'<section id="{section.name}"><h2>{_text(section.title)}</h2>'
    yield f"<p>{_text(section.words if found.rows else section.empty)}</p>"
    if found.rows and section.plot is not None:
        yield section.plot(found.rows)
    if found.rows and section.columns:
        kinds = ["" if column.form in forms.TO_THE_LEFT else ' class="n"' for column in section.columns]
        heads = (f"<th{kind}>{_text(column.head)}</th>" for kind, column in zip(kinds, section.columns, strict=True))
        yield f'<div class="rows"><table><thead><tr>{"".join(heads)}</tr></thead><tbody>'
        for row in found.rows:
            cells = (_cell(column, kind, row) for kind, column in zip(kinds, section.columns, strict=True))
            yield f"<tr>{''.join(cells)}</tr>"
        yield "</tbody></table></div>"
        if found.more:
            yield f"<p>The first {section.most} rows; there are more.</p>"
    for name, text in (section.texts(found.rows) if section.texts is not None else {}).items():
        lines = "\n".join(map(_text, text.split("\n")))
        yield f'<details><summary id="{_text(name)}">{_text(name)}</summary><pre>{lines}</pre></details>'
    yield "</section>"


def _cell(column: Column, kind: str, row: Mapping[str, Any]) -> str:
    text = _text(forms.text(column.form, row[column.name]))
    shown = f'<a href="#{text}">{text}</a>' if column.form == "rule" else text
    return f'<td{kind} title="{text}">{shown}</td>'


def _text(words: str) -> str:
    return html_escape(escape(words))
