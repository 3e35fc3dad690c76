"""`kproxy torture`: a client's own program, once for each scenario of faults."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options.types import ADDRESS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kproxy.torture.scenario import Scenario
    from kproxy.torture.trial import Bench, Result

OUTPUT_LINES = 5
"""Number of lines of the program's output that are shown if its verdict is bad."""


class ScenarioName(click.ParamType[str]):
    """The name of a scenario."""

    name = "scenario"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del ctx, param
        from click.shell_completion import CompletionItem

        from kproxy.torture.scenario import names

        return [CompletionItem(one) for one in names() if one.startswith(incomplete)]


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option(
    "--scenario", "wanted", multiple=True, type=ScenarioName(), metavar="NAME",
    help="Run only this scenario (repeatable).",
)  # fmt: skip
@click.option("--upstream", type=ADDRESS, metavar="HOST:PORT", help="A cluster, in place of librdkafka's mock cluster.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Kill the program's process group after this time in a scenario.",
)
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write JUnit XML.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write one JSON object for each scenario.")  # fmt: skip
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Keep the capture of each scenario in DIR.")  # fmt: skip
@click.option("--list", "lists", is_flag=True, help="List the scenarios.")
@click.option("--explain", type=ScenarioName(), metavar="NAME", help="Explain a scenario and print its rule file.")
def command(
    program: tuple[str, ...],
    wanted: tuple[str, ...],
    upstream: tuple[str, int] | None,
    timeout: float,
    junit: Path | None,
    json_file: Path | None,
    keep: Path | None,
    lists: bool,
    explain: str | None,
) -> None:
    """Run a client's own program once for each scenario of faults, and say how it did.

    The program gets KPROXY_BOOTSTRAP, KPROXY_TOPIC, KPROXY_GROUP, KPROXY_TRANSACTIONAL_ID and KPROXY_ROLE in its
    environment (docs/torturing.md). kproxy itself then reads the topic: is each record there exactly once? A scenario
    whose rule never acted is "not met". The exit code is 1 unless all scenarios went as they should.

    \b
    kproxy torture --list
    kproxy torture --explain lost-produce-answer
    kproxy torture -- python my_client.py
    kproxy torture --scenario lost-produce-answer --upstream kafka:9092 --junit torture.xml -- ./client
    """  # noqa: D301 (\b keeps click from joining the lines)
    if lists:
        for scenario in _scenarios(wanted):
            click.echo(f"{scenario.name:<34} {scenario.fault}")
        return
    if explain is not None:
        _explain(*_scenarios((explain,)))
        return
    if not program:
        raise click.UsageError("give the client's program: kproxy torture -- COMMAND...")
    if shutil.which(program[0]) is None:
        raise Failure(f"cannot find the program {program[0]}", Exit.USAGE)
    chosen = _scenarios(wanted)
    for path in filter(None, (junit, json_file)):
        _write(path, None)  # an error comes before minutes of trials
    with _bench(upstream, timeout, keep) as bench:
        results = list(_run(chosen, program, bench))
    _results(results, program, junit, json_file)
    from kproxy.torture.scorecard import summary

    click.echo(summary(results))
    if not all(result.verdict.good for result in results):
        raise click.exceptions.Exit(Exit.CONDITION)


def _scenarios(wanted: tuple[str, ...]) -> list[Scenario]:
    from kproxy.torture.scenario import scenarios

    try:
        return list(scenarios(wanted))
    except KeyError as error:
        raise Failure(f"there is no scenario {error.args[0]!r} (kproxy torture --list)", Exit.USAGE) from None


def _explain(scenario: Scenario) -> None:
    from kproxy.faults.words import explain

    click.echo(f"{scenario.name} ({scenario.role}; seen in {scenario.seen})")
    click.echo(f"fault: {scenario.fault}")
    click.echo(f"a correct client: {scenario.correct}")
    for rule in scenario.rules:
        click.echo(explain(rule))
    click.echo(f"\n# {scenario.path}")
    click.echo(scenario.path.read_text(encoding="utf-8"), nl=False)


@contextlib.contextmanager
def _bench(upstream: tuple[str, int] | None, timeout: float, keep: Path | None) -> Iterator[Bench]:
    """The cluster that the user named, or a mock cluster that lives as long as this context."""
    from kproxy.torture.trial import Bench

    if upstream is not None:
        host, port = upstream
        yield Bench(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", mock=False, seconds=timeout, keep=keep)
        return
    from kproxy.runs.demo import DemoError, Traffic

    try:
        with Traffic() as cluster:
            yield Bench(cluster.bootstrap, mock=True, seconds=timeout, keep=keep)
    except DemoError as error:
        raise Failure(str(error), Exit.CONNECT) from None


def _run(chosen: list[Scenario], program: tuple[str, ...], bench: Bench) -> Iterator[Result]:
    from kproxy.runs.launcher import StartError
    from kproxy.torture.canary import CanaryError
    from kproxy.torture.scorecard import line, tail

    for scenario in chosen:
        try:
            result = bench.trial(scenario, program)
        except (CanaryError, StartError, OSError) as error:
            raise Failure(f"{scenario.name}: {error}", Exit.CONNECT) from None
        if not settings.current().quiet:
            click.echo(line(result))
            for said in () if result.verdict.good else tail(result.output, OUTPUT_LINES):
                click.echo(f"    | {said}")
        yield result


def _results(results: list[Result], program: tuple[str, ...], junit: Path | None, json_file: Path | None) -> None:
    from kproxy.decoders.escaping import json_text
    from kproxy.torture import scorecard

    if junit is not None:
        _write(junit, scorecard.junit(results, program))
    if json_file is not None:
        _write(json_file, "".join(f"{json_text(one.to_json())}\n" for one in results))


def _write(path: Path, text: str | None) -> None:
    """Replaces the file's content; None only looks whether that is possible. Raises Failure (exit 2)."""
    from kproxy.captures import private

    try:
        with private.appended(path) if text is None else private.output(path) as file:
            file.write((text or "").encode())
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}", Exit.USAGE) from None
