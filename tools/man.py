"""The man page and the completion scripts, made from the commands as docs/cli.md is.

Not made by click-man, which misses commands that are imported when they are called, and preformatted help.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

import kproxy
from kproxy.cli.commands import COMMANDS, load
from kproxy.cli.commands.completion import script
from kproxy.cli.exits import MEANINGS
from kproxy.cli.main import main

PACKAGES: Final = Path(__file__).parent.parent / "packages"
SHELLS: Final = {"kproxy.bash": "bash", "_kproxy": "zsh", "kproxy.fish": "fish"}
"""Files of packages/completions, with the shell of each."""


def _escaped(text: str) -> str:
    """Text escaped for roff: backslashes and hyphens print as themselves, and a line is no roff request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def _paragraphs(text: str) -> Iterator[str]:
    for block in text.split("\n\n"):
        yield ".PP"
        if block.lstrip().startswith("\b"):
            yield ".nf"
            yield ".RS 4"
            yield from (_escaped(line) for line in block.replace("\b", "").strip("\n").splitlines())
            yield ".RE"
            yield ".fi"
        else:
            yield _escaped(" ".join(line.strip() for line in block.splitlines()))


def _options(command: click.Command, ctx: click.Context) -> Iterator[str]:
    for option in command.params:
        record = option.get_help_record(ctx) if isinstance(option, click.Option) and not option.hidden else None
        if record is not None:
            yield ".TP"
            yield f"\\fB{_escaped(record[0])}\\fR"
            yield _escaped(" ".join(record[1].split()))


def _command(name: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    ctx = click.Context(command, info_name=name, parent=parent)
    pieces = " ".join(command.collect_usage_pieces(ctx))
    yield f'.SS "{_escaped(f"{ctx.command_path} {pieces}")}"'
    yield from _paragraphs(inspect.cleandoc(command.help or ""))
    yield from _options(command, ctx)
    if isinstance(command, click.Group):
        for sub in command.list_commands(ctx):
            found = command.get_command(ctx, sub)
            if found is not None:
                yield from _command(sub, found, ctx)


def _page() -> Iterator[str]:
    ctx = main.make_context("kproxy", [], resilient_parsing=True)
    yield f'.TH KPROXY 1 "" "kproxy {kproxy.__version__}"'
    yield ".SH NAME"
    yield "kproxy \\- protocol debugging proxy and packet inspector for Apache Kafka"
    yield ".SH SYNOPSIS"
    yield "\\fBkproxy\\fR [OPTIONS] COMMAND [ARGS]..."
    yield ".SH DESCRIPTION"
    yield from _paragraphs(inspect.cleandoc(main.help or ""))
    yield ".SH OPTIONS"
    yield "Options of every command; they may stand before or after its name."
    yield from _options(main, ctx)
    yield ".SH COMMANDS"
    for name, entry in COMMANDS.items():
        yield from _command(name, load(entry.target), ctx)
    yield ".SH EXIT STATUS"
    for code, meaning in MEANINGS.items():
        yield ".TP"
        yield str(int(code))
        yield _escaped(meaning)


def files() -> dict[Path, str]:
    """Maps each file that is made to its text: the man page, in roff, and the scripts."""
    scripts = {PACKAGES / "completions" / name: f"{script(shell)}\n" for name, shell in SHELLS.items()}
    return {PACKAGES / "man" / "kproxy.1": "\n".join(_page()) + "\n", **scripts}
