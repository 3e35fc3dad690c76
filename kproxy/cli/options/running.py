"""Options about the process of a run: background, name, hang-up, limits."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options.types import SIZE

if TYPE_CHECKING:
    from kproxy.runs.launcher import RelayProcess
    from kproxy.runs.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Running:
    """The values of options: `silent` is --no-lines, `settings` the fields of kproxy.runs.settings.Settings."""

    detach: bool
    silent: bool
    settings: dict[str, Any]


def _name(ctx: click.Context, param: click.Parameter, given: str) -> str:
    if given and not re.fullmatch(r"[A-Za-z][\w.-]{0,63}", given):
        raise click.BadParameter("a name is a letter, then letters, digits, dots, dashes or underscores", ctx, param)
    if given and not ctx.resilient_parsing:
        _refuse_taken(given)
    return given


def backing(command: Command) -> Command:
    """Adds --detach and --name; the command gets `detach` and `name`. Raises Failure if the name is taken."""
    name = click.option(
        "--name", default="", metavar="NAME", callback=_name, help="Name of this run for kproxy ps, attach and stop."
    )
    detach = click.option(
        "--detach", is_flag=True, help="Start in the background and return; kproxy attach shows what passes."
    )
    return detach(name(command))


def running(command: Command) -> Command:
    """Adds --detach, --name, --on-hangup, --no-lines and limits; the command gets a `Running` as `running`.

    Raises Failure if options exclude each other or the name is taken.
    """

    @backing
    @click.option(
        "--on-hangup",
        type=click.Choice(["keep", "exit"]),
        default="keep",
        show_default=True,
        help="Keep running, or exit, when the terminal closes or the UI crashes.",
    )
    @click.option("--no-lines", is_flag=True, help="Print no exchanges, only warnings: for services.")
    @click.option(
        "--max-connections",
        type=click.IntRange(min=1),
        metavar="N",
        help="Refuse clients beyond N connections (default: as many as the limit of open files allows).",
    )
    @click.option(
        "--max-listeners",
        type=click.IntRange(min=1),
        default=1000,
        show_default=True,
        metavar="N",
        help="Listen for at most N brokers and controllers of a cluster.",
    )
    @click.option(
        "--memory",
        "memory_max",
        type=SIZE,
        default="256M",
        show_default=True,
        metavar="SIZE",
        help="Memory for held responses and for bytes that wait for slow receivers.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        detach: bool,
        name: str,
        on_hangup: str,
        no_lines: bool,
        max_connections: int | None,
        max_listeners: int,
        memory_max: int,
        **rest: Any,
    ) -> Any:
        if detach and on_hangup == "exit":
            raise Failure("--detach and --on-hangup exit exclude each other", Exit.USAGE)
        settings = {
            "run_name": name,
            "attached": on_hangup == "exit",
            "max_connections": max_connections,
            "max_listeners": max_listeners,
            "memory_max": memory_max,
        }
        return command(*args, running=Running(detach, no_lines, settings), **rest)

    return cast("Command", wrapped)


def leave(relay: RelayProcess, chosen: Settings) -> None:
    """Detaches from the relay or sniffer, which goes on; prints how to attach to it again."""
    relay.leave()
    known = chosen.run_name or relay.pid
    ways = f"kproxy attach {known} shows it, kproxy stop {known} ends it"
    with contextlib.suppress(OSError):
        click.echo(f"process {relay.pid} keeps running: {ways}", err=True)


def _refuse_taken(name: str) -> None:
    from kproxy.runs.registry import NoRunError, find

    try:
        run = find(name)
    except NoRunError:
        return
    raise Failure(f"the name {name} is taken by process {run.pid} (kproxy stop {name} ends it)", Exit.USAGE)
