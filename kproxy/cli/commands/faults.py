"""`kproxy faults`: checks rules that act on traffic, and manages those of a running proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kproxy.cli import settings as cli
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.running import running

RUN = click.option("--run", "wanted", metavar="PID|NAME", help="The proxy; may be left out if only one runs.")


@click.group()
def command() -> None:
    """Check rules that act on traffic, and manage those of a running proxy."""


@command.command()
@click.argument("given", nargs=-1, required=True, metavar="FILE|RULE...")
def check(given: tuple[str, ...]) -> None:
    """Explain rules in words. The exit code is 2 if a rule is invalid.

    \b
    kproxy faults check 'api == Produce => drop response, nth 2'
    kproxy faults check faults.yaml
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.faults.files import load
    from kproxy.faults.trouble import FaultsError
    from kproxy.faults.words import explain

    for one in given:
        is_file = "=>" not in one
        try:
            rules = load((), Path(one)) if is_file else load((one,))
        except FaultsError as error:
            raise click.UsageError(str(error)) from None
        for rule in rules:
            click.echo(explain(rule))


@command.command("list")
@RUN
def list_rules(wanted: str | None) -> None:
    """List the rules of a running proxy: how often each matched and acted, and what it holds.

    \b
    kproxy faults list --run orders
    kproxy faults list --json
    """  # noqa: D301
    rules = _ask(wanted, "list")["rules"]
    if cli.current().json:
        import json

        click.echo(json.dumps(rules))
        return
    for rule in rules:
        state = ", paused" if rule["paused"] else f", holds {rule['held']}" if rule["held"] else ""
        click.echo(f"{rule['name']}: {rule['text']}  ({rule['hits']} of {rule['matches']} matches{state})")


@command.command()
@click.argument("rule")
@RUN
def add(rule: str, wanted: str | None) -> None:
    """Add a rule to a running proxy.

    If the proxy had no rules before, the rule acts only on connections opened from now on. The exit code is 2 if the
    rule is invalid; nothing changes then.

    \b
    kproxy faults add 'slow: api == Fetch => delay 500ms ±100ms'
    """  # noqa: D301
    (added,) = _ask(wanted, "add", rule=rule)["rules"]
    _said(f"added: {added['name']}")


@command.command()
@click.argument("name")
@RUN
def remove(name: str, wanted: str | None) -> None:
    """Remove the rule NAME; the frames that it holds are sent."""
    _ask(wanted, "remove", name=name)
    _said(f"removed: {name}")


@command.command()
@click.argument("name")
@RUN
def pause(name: str, wanted: str | None) -> None:
    """Make the rule NAME match nothing, until `kproxy faults resume`."""
    _ask(wanted, "pause", name=name)
    _said(f"paused: {name}")


@command.command()
@click.argument("name")
@RUN
def resume(name: str, wanted: str | None) -> None:
    """Make the paused rule NAME match again."""
    _ask(wanted, "resume", name=name)
    _said(f"resumed: {name}")


@command.command()
@click.argument("name")
@RUN
def release(name: str, wanted: str | None) -> None:
    """Send the frames that the rule NAME holds or delays now."""
    _said(f"released: {_ask(wanted, 'release', name=name)['released']}")


@command.command()
@RUN
def held(wanted: str | None) -> None:
    """Print the frames that a rule intercept holds, one JSON object a line.

    \b
    kproxy faults held | jq -c '[.held, .api, .client_id, .left_ms]'
    """  # noqa: D301
    from kproxy.decoders.escaping import json_text

    last = 0
    while frames := _ask(wanted, "intercepted", number=last)["intercepted"]:
        for frame in frames:
            click.echo(json_text(frame))
            last = frame["held"]


@command.command()
@click.argument("number", type=click.IntRange(min=1))
@click.argument("decision", metavar="JSON|VERB")
@RUN
def decide(number: int, decision: str, wanted: str | None) -> None:
    """Decide about the intercepted frame NUMBER: forward, drop, disconnect or duplicate, or a decision as JSON.

    The exit code is 2 if the decision cannot be carried out; the frame waits on then.

    \b
    kproxy faults decide 3 forward
    kproxy faults decide 3 '{"do": "error", "code": "NOT_LEADER_OR_FOLLOWER"}'
    """  # noqa: D301
    import json

    given = {"do": decision}
    if decision.lstrip().startswith("{"):
        try:
            given = json.loads(decision)
        except (ValueError, RecursionError) as error:
            raise click.UsageError(f"the decision is not valid JSON: {error}") from None
    _ask(wanted, "decide", number=number, decision=given)
    _said(f"decided: {number}")


@command.command()
@click.argument("name", required=False)
@RUN
def reset(name: str | None, wanted: str | None) -> None:
    """Set the counts of the rule NAME, or of all rules, to 0."""
    _ask(wanted, "reset", name=name)
    _said(f"reset: {name or 'all rules'}")


@command.command()
@RUN
def reload(wanted: str | None) -> None:
    """Read the file of --faults again, as SIGHUP does; unchanged rules keep their counts."""
    _said(f"rules: {len(_ask(wanted, 'reload')['rules'])}")


def _ask(wanted: str | None, op: str, **more: Any) -> dict[str, Any]:
    """Sends a command about rules to a running proxy. Raises UsageError if refused, Failure without an answer."""
    from kproxy.runs.registry import Refused, ask_rules

    run = running(wanted)
    try:
        return ask_rules(run.run_dir, op, **more)
    except Refused as error:
        raise click.UsageError(str(error)) from None
    except (OSError, ValueError) as error:
        raise Failure(f"{run.pid} {run.name} does not answer: {error}", Exit.CONNECT) from None


def _said(text: str) -> None:
    if not cli.current().quiet:
        click.echo(text, err=True)
