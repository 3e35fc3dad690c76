"""`kproxy findings`: what is wrong in a capture, with the exchanges that prove it."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.captures.findings.forms import FORMATS
from kproxy.cli import progress, readings, settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options.findings import SEVERITIES
from kproxy.cli.options.reading import Reading, captured, reading_options
from kproxy.cli.options.selecting import Criteria, fails_on, selecting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kproxy.captures.findings.baseline import Known
    from kproxy.captures.findings.model import Finding


def _explain(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    """Prints the rule with id `value`, or for "all" the id and title of every rule; then ends the command."""
    if value is None or ctx.resilient_parsing:
        return
    from kproxy.captures.findings.table import RULES, rule
    from kproxy.captures.findings.text import rule_text

    if value == "all":
        width = max(map(len, RULES))
        for row in RULES.values():
            click.echo(f"{row.id:<{width}}  {row.title}")
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
            raise click.BadParameter(f"{name!r} is not a threshold; `--explain RULE` lists a rule's thresholds")
        try:
            limits[name] = float(number)
        except ValueError:
            raise click.BadParameter(f"{value!r}: a threshold is a number") from None
    return limits


def _baseline(_ctx: click.Context, _param: click.Parameter, path: Path | None) -> frozenset[Known]:
    from kproxy.captures.findings.baseline import BaselineError, known_of

    if path is None:
        return frozenset()
    try:
        with path.open(encoding="utf-8") as lines:
            return known_of(lines)
    except (BaselineError, OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{path}: {error}") from None


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
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Output format; --json is short for --format jsonl.",
)
@click.option(
    "--baseline",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    callback=_baseline,
    metavar="FILE",
    help="Leave out what an earlier run with --json found: the same rule about the same group, client or topic.",
)
@click.option("--group", metavar="G", help="Only findings about this group.")
@click.option(
    "--limit",
    "limits",
    multiple=True,
    callback=_limits,
    metavar="RULE.NAME=N",
    help="Change a rule's threshold to N (repeatable).",
)
@captured
@partial(selecting, conditions=dict.fromkeys(SEVERITIES, "with exit code 1 if a finding is that severe or worse"))
@reading_options
def command(
    captures: tuple[Path, ...],
    severity: str,
    form: str,
    group: str | None,
    baseline: frozenset[Known],
    limits: Mapping[str, float],
    criteria: Criteria,
    reading: Reading,
) -> None:
    """Say what is wrong in captures: the worst and most costly first, each with the exchanges that prove it.

    A finding names who causes it, its likely cause, what to change (for the Java client and for librdkafka), how to
    verify the change, and what this capture cannot tell. A symptom stands below its cause. Rules use the capture's
    times, so the same capture always gives the same findings. --json prints one object a line, the capture's health
    last; sarif and junit are for build servers, html is a page. --fail-on ignores findings that are in the --baseline.

    \b
    kproxy findings capture.pcap
    kproxy findings capture.pcap --severity warn --fail-on error
    kproxy findings capture.pcap --json | jq 'select(.rule == "group.poll_gap").actors'
    kproxy findings --explain group.poll_gap
    kproxy findings test.pcap --baseline known.jsonl --fail-on warn --format junit > findings.xml
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.captures.findings.baseline import is_known
    from kproxy.captures.findings.forms import Report, report_lines
    from kproxy.captures.findings.model import Severity, finding_json
    from kproxy.captures.findings.reading import Findings
    from kproxy.captures.garbage import few_collections
    from kproxy.decoders.exchange_json import health_json
    from kproxy.decoders.plurals import counted

    form = "jsonl" if settings.current().json else form
    selection = criteria.selection()
    reader = reading.reader(captures)
    findings = Findings(reader.source, reader.definitions, reader.health, limits)
    with closing(reader), few_collections():
        for batch in selection.until_done(progress.batches(reader)):
            findings.add(selection.of(batch, reader.source, reader.definitions), reader.closings)
    found = [one for one in findings.finish() if group is None or one.scope == ("group", group)]
    new = [one for one in found if not is_known(one, baseline)]
    shown = [one for one in new if one.severity >= Severity[severity.upper()]]
    objects = [finding_json(one) for one in shown]
    report = Report(objects, list(map(str, captures)), health_json(reader.health), len(found) - len(shown))
    for line in report_lines(form, report):
        click.echo(line)
    for kind, number in findings.engine.evicted.items():
        settings.warn(f"too many to track at the same time: findings about {counted(number, kind)} may be missing")
    failing = _worst(new)
    readings.conclude(reader, selection, health=form != "jsonl")
    asked = next(filter(fails_on, SEVERITIES), None)
    if asked is not None and failing is not None and failing >= Severity[asked.upper()]:
        raise Failure(f"there is a finding of severity {failing.name.lower()} (--fail-on {asked})", Exit.CONDITION)


def _worst(found: list[Finding]) -> Any:
    return max((one.severity for one in found), default=None)
