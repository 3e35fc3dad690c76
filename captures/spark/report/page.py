"""Writes a report as a self-contained HTML file: tables and plots, light and dark, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape as html_escape
from typing import Any, Final

from kproxy.captures.spark.report import forms
from kproxy.captures.spark.report.sections import Column, Found, Section
from kproxy.decoders.escaping import escape

_STYLE = """
:root { color-scheme: light dark; --fg: #1c2127; --bg: #fff; --soft: #f3f4f6; --line: #d8dce1; --dim: #5d6670;
  --c0: #2b6cb0; --c1: #d9822b; --c2: #29876a; --c3: #b8405e; --c4: #7157b5; --c5: #6f7680 }
@media (prefers-color-scheme: dark) { :root { --fg: #dfe3e8; --bg: #16181c; --soft: #20242a; --line: #363c44;
  --dim: #98a2ad; --c0: #6fb1f0; --c1: #f0a860; --c2: #5cc9a4; --c3: #f08aa2; --c4: #b39df0; --c5: #a9b1ba } }
body { font: 14px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 90em; padding: 1.5em; color: var(--fg);
  background: var(--bg) }
h1 { font-size: 1.5em; margin-bottom: 0 } h2 { font-size: 1.15em; margin: 2.2em 0 .2em }
p { color: var(--dim); margin: 0 0 .8em }
nav { display: flex; flex-wrap: wrap; gap: .2em 1.2em } a { color: var(--c0) }
.rows { display: flex; flex-direction: column; align-items: start; overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th { background: var(--soft); font-weight: 600; vertical-align: bottom }
th, td { padding: .15em .6em .15em .3em; border-bottom: 1px solid var(--line); text-align: left }
td { vertical-align: top; overflow-wrap: break-word; max-width: 20em } td.n { white-space: nowrap }
td.n, th.n { text-align: right }
.rows > input { order: 1; position: absolute; opacity: 0 } .rows > label { order: 1; color: var(--c0); cursor: pointer }
input:focus-visible + label { outline: 2px solid } .more { display: none }
input:checked ~ table .more { display: table-row-group } input:checked + label { display: none }
@media print { .more { display: table-row-group } .rows > label { display: none } }
figure { margin: .5em 0 1em; overflow-x: auto } figcaption span { margin-right: 1.2em; color: var(--dim) }
svg { width: 100%; min-width: 52em; max-width: 76em; height: auto } text { font-size: 12px; fill: var(--dim) }
pre { white-space: pre-wrap }
.grid { stroke: var(--line) } .axis { stroke: var(--dim) } .stroke { fill: none; stroke-width: 1.5; stroke: var(--c) }
.fill { fill: var(--c) } .key { display: inline-block; width: .8em; height: .8em; margin-right: .4em;
  background: var(--c) }
.c0 { --c: var(--c0) } .c1 { --c: var(--c1) } .c2 { --c: var(--c2) } .c3 { --c: var(--c3) } .c4 { --c: var(--c4) }
.c5 { --c: var(--c5) }
"""


_STACKED = """
@media (max-width: %(width)s) { .%(kind)s { display: block; width: 100%% } .%(kind)s thead { display: none }
  .%(kind)s tbody:not(.more), .%(kind)s tr { display: block } input:checked ~ .%(kind)s .more { display: block }
  .%(kind)s tr { padding: .4em 0; border-bottom: 1px solid var(--line) }
  .%(kind)s td, .%(kind)s td.n { display: flex; justify-content: space-between; gap: 1em; border: 0; padding: 0 .4em;
    text-align: right; overflow-wrap: anywhere; max-width: none }
  .%(kind)s td::before { content: attr(data-head); color: var(--dim); flex: none }
  .%(kind)s td:empty { display: none } }
"""
"""Style of a table in which each value gets a line of its own, on screens that are narrower than `width`."""
_KINDS: Final = ((6, "many", "60em"), (9, "most", "78em"))
"""(number of columns, name, width): tables with more columns are stacked on screens narrower than the width."""
_FIRST: Final = 12
"""Number of rows that a table shows until the reader expands it."""


def page(title: str, results: Iterable[Found]) -> str:
    """The HTML of a report with these sections."""
    return "\n".join(_parts(title, list(results))) + "\n"


def _parts(title: str, found: list[Found]) -> Iterator[str]:
    name = _text(title)
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    stacked = "".join(_STACKED % {"kind": kind, "width": width} for _, kind, width in _KINDS)
    yield f"<style>{_STYLE}{stacked}</style></head><body>\n<h1>Kafka traffic</h1><p>{name}. Times are UTC.</p>"
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
        sides = ["" if column.form in forms.TO_THE_LEFT else ' class="n"' for column in section.columns]
        heads = (f"<th{side}>{_text(column.head)}</th>" for side, column in zip(sides, section.columns, strict=True))
        yield '<div class="rows">'
        if len(found.rows) > _FIRST:
            name = f"{section.name}-all"
            yield f'<input type="checkbox" id="{name}"/><label for="{name}">Show all {len(found.rows):,} rows</label>'
        kinds = " ".join(kind for columns, kind, _ in _KINDS if len(section.columns) > columns)
        yield f'<table class="{kinds}"><thead><tr>{"".join(heads)}</tr></thead>'
        yield f"<tbody>{''.join(_row(section, row) for row in found.rows[:_FIRST])}</tbody>"
        if len(found.rows) > _FIRST:
            yield f'<tbody class="more">{"".join(_row(section, row) for row in found.rows[_FIRST:])}</tbody>'
        yield "</table></div>"
        if found.more:
            yield f"<p>The first {section.most} rows; there are more.</p>"
    for name, text in (section.texts(found.rows) if section.texts is not None else {}).items():
        lines = "\n".join(map(_text, text.split("\n")))
        yield f'<details><summary id="{_text(name)}">{_text(name)}</summary><pre>{lines}</pre></details>'
    yield "</section>"


def _row(section: Section, row: Mapping[str, Any]) -> str:
    return f"<tr>{''.join(_cell(column, row) for column in section.columns)}</tr>\n"


def _cell(column: Column, row: Mapping[str, Any]) -> str:
    text = _text(forms.text(column.form, row[column.name]))
    kind = "" if column.form in forms.TO_THE_LEFT else ' class="n"'
    shown = f'<a href="#{text}">{text}</a>' if column.form == "rule" else text
    return f'<td{kind} data-head="{_text(column.head)}">{shown}</td>'


def _text(words: str) -> str:
    return html_escape(escape(words))
