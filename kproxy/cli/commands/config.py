from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import click

from kproxy.cli import clusters, interface, settings
from kproxy.cli.exits import Exit


@dataclass(frozen=True, slots=True)
class Setting:
    """The value of an option and the source that sets it."""

    option: str
    value: Any
    source: str


@click.group()
def command() -> None:
    """Show where settings come from, and check them."""


@command.command()
def path() -> None:
    """Print the path of the configuration file."""
    click.echo(str(settings.config_path()))


@command.command()
def show() -> None:
    """Print every option that the environment or the configuration sets: its value and source."""
    settings.read_sources()
    shown = list(effective())
    if not shown and not settings.current().json:
        path = settings.config_path()
        where = str(path) if path.exists() else f"{path}, which does not exist"
        click.echo(f"nothing is set in the environment or in {where}: every option has its default")
    for setting in shown:
        if settings.current().json:
            import json

            click.echo(json.dumps(asdict(setting), default=str))
        else:
            click.echo(f"{setting.option} = {setting.value!r}  ({setting.source})")


def without_credentials(value: Any) -> Any:
    """A value with user and password removed from URLs in it."""
    return re.sub(r"//[^/@\s]*@", "//***@", value) if isinstance(value, str) else value


@command.command()
@click.pass_context
def check(ctx: click.Context) -> None:
    """Check the configuration: print unknown keys and invalid values. The exit code is 2 if there are any."""
    settings.read_sources()
    lines = [*unknown(), *unfit(), *clusters.unfit(), *interface.unfit()]
    for line in lines:
        click.echo(f"kproxy: {line}", err=True)
    if lines:
        ctx.exit(Exit.USAGE)
    path = settings.config_path()
    click.echo(f"{path}: ok" if path.exists() else f"{path}: does not exist, defaults apply")


def _commands() -> Iterator[tuple[str, click.Command]]:
    from kproxy.cli.commands import COMMANDS, load

    for name, entry in COMMANDS.items():
        found = load(entry.target)
        for one in found.commands.values() if isinstance(found, click.Group) else (found,):
            yield name, one


def _own_options(command: click.Command) -> Iterator[click.Option]:
    for option in command.params:
        if isinstance(option, click.Option) and option.expose_value:
            yield option


def effective() -> Iterator[Setting]:
    """Every option that the environment or the configuration sets; options that commands of a group share come once."""
    seen: set[tuple[str, str]] = set()
    for name, found in _commands():
        for option in _own_options(found):
            key = settings.spelled(option)
            if (name, key) in seen:
                continue
            seen.add((name, key))
            for source, values in settings.sources(name):
                if (value := values.get(key)) is not None:
                    yield Setting(f"{name}.{key}", without_credentials(value), source)
                    break


def unknown() -> list[str]:
    """Errors for configuration keys that no command has."""
    from kproxy.cli.commands import COMMANDS, load

    current = settings.current()
    return settings.unknown_keys(
        current.file,
        current.overrides,
        list(COMMANDS),
        lambda name: settings.option_names([load(COMMANDS[name].target)]),
    )


def unfit() -> Iterator[str]:
    """Errors for configuration values that are invalid for their option."""
    for name, found in _commands():
        for option in _own_options(found):
            key = settings.spelled(option)
            for source, values in settings.sources(name):
                value = values.get(key)
                if value is None:
                    continue
                try:
                    settings.typed(option, value)
                except click.BadParameter as error:
                    yield f"{source}: {name}.{key}: {error.message}"
