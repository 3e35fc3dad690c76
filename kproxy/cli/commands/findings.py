"""`kproxy findings`: what is wrong in a capture, with the exchanges that prove it."""

from __future__ import annotations

import json
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli import progress, readings, settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options.reading import captured, decrypting, defining, porting, releasing, spooling
from kproxy.cli.options.selecting import Selection, fails_on, selecting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kproxy.captures.findings.model import Finding
    from kproxy.captures.ports import Ports
    from kproxy.captures.reader import Reader
    from kproxy.captures.spool import Spooling
    from kproxy.decoders.filters import Expression

SEVERITIES = ("info", "note", "warn", "error")


def _explain(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    """Prints a rule, or with "all" the id and title of each, and ends the command."""
    if value is None or ctx.resilient_parsing:
        return
    from kproxy.captures.findings.table import RULES, rule
    from kproxy.captures.findings.text import rule_text

    if value == "all":
        for row in RULES.values():
            click.echo(f"{row.id:<24} {row.title}")
        ctx.exit()
    found = rule(value)
    if found is None:
        raise click.BadParameter(f"there is no rule {value!r}; `--explain all` lists them")
    for line in rule_text(found):
        click.echo(line)
    ctx.exit()


def _limits(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    from kproxy.captures.findings.table import RULES

    known = {f"{row.id}.{one.name}" for row in RULES.values() for one in row.thresholds}
    limits = {}
    for value in values:
        name, _, number = value.partition("=")
        if name not in known:
            raise click.BadParameter(f"{name!r} is no threshold; `--explain RULE` lists those of a rule")
        try:
            limits[name] = float(number)
        except ValueError:
            raise click.BadParameter(f"{value!r}: a threshold is a number") from None
    return limits


@click.command()
@click.option(
    "--explain",
    is_eager=True,
    expose_value=False,
    callback=_explain,
    metavar="RULE",
    help="Say what a rule (its id or number) looks for, and end; `all` lists the rules.",
)
@click.option(
    "--severity",
    type=click.Choice(SEVERITIES),
    default="note",
    show_default=True,
    help="Show findings of this severity and worse.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "jsonl")),
    default="text",
    show_default=True,
    help="Form of the output; --json is jsonl.",
)
@click.option("--group", metavar="G", help="Only findings about this group.")
@click.option(
    "--limit",
    "limits",
    multiple=True,
    callback=_limits,
    metavar="RULE.NAME=N",
    help="Another value for a rule's threshold (repeatable).",
)
@captured
@partial(selecting, conditions=dict.fromkeys(SEVERITIES, "with exit code 1 if a finding is that severe or worse"))
@porting
@releasing
@defining
@decrypting
@spooling
def command(
    captures: tuple[Path, ...],
    severity: str,
    form: str,
    group: str | None,
    limits: Mapping[str, float],
    expression: Expression | None,
    count: int | None,
    since: int | None,
    until: int | None,
    ports: Ports | None,
    release: str | None,
    user_definitions: tuple[str, ...],
    keylog: Path | None,
    spooling: Spooling,
) -> None:
    """Say what is wrong in captures: the worst and most costly first, each with the exchanges that prove it.

    A finding names who does it, its likely cause, what to change (for the Java client and for librdkafka), how to
    verify the change, and what this capture cannot tell. A symptom stands below its cause. Rules judge by the times of
    the capture, so that every reading of it gives the same findings. With --json one object a line, the capture's
    health last.

    \b
    kproxy findings capture.pcap
    kproxy findings capture.pcap --severity warn --fail-on error
    kproxy findings capture.pcap --json | jq 'select(.rule == "group.poll_gap").actors'
    kproxy findings --explain group.poll_gap
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.captures.findings.model import Severity, finding_json
    from kproxy.captures.findings.reading import Findings
    from kproxy.captures.reader import read
    from kproxy.decoders.plurals import counted

    selection = Selection(expression, count, since, until)
    reader = read(
        list(captures),
        ports=ports,
        release=release,
        user_definitions=user_definitions,
        keylog=keylog,
        spooling=spooling,
    )
    findings = Findings(reader.source, reader.definitions, reader.health, limits)
    with closing(reader):
        for batch in progress.batches(reader):
            findings.add(selection.of(batch, reader.source, reader.definitions), reader.closings)
            if selection.done:
                break
    found = [one for one in findings.finish() if group is None or one.scope == ("group", group)]
    shown = [one for one in found if one.severity >= Severity[severity.upper()]]
    _tell(reader, [finding_json(one) for one in shown], len(found), json_lines=form == "jsonl")
    for kind, number in findings.engine.evicted.items():
        settings.warn(f"too many at a time to watch: findings about {counted(number, kind)} may be missing")
    failing = _worst(found)
    readings.conclude(reader, selection, health=form != "jsonl" and not settings.current().json)
    asked = next(filter(fails_on, SEVERITIES), None)
    if asked is not None and failing is not None and failing >= Severity[asked.upper()]:
        raise Failure(f"there is a finding of severity {failing.name.lower()} (--fail-on {asked})", Exit.CONDITION)


def _worst(found: list[Finding]) -> Any:
    return max((one.severity for one in found), default=None)


def _tell(reader: Reader, lines: list[dict[str, Any]], found: int, *, json_lines: bool) -> None:
    from kproxy.captures.findings.text import closing_line, findings_text
    from kproxy.decoders.exchange_json import health_json

    if json_lines or settings.current().json:
        for line in (*lines, health_json(reader.health)):
            click.echo(json.dumps(line))
        return
    for text in findings_text(lines):
        click.echo(text)
    click.echo(closing_line(found, found - len(lines)))
