"""Suggests commands where `kproxy` was started without one; in a terminal, the user chooses one by its number."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import click

from kproxy.captures.names import is_capture_name
from kproxy.cli.exits import Exit
from kproxy.cli.itself import COMMAND
from kproxy.decoders.escaping import escape

MOST_FILES: Final = 10_000
"""Maximum number of files of the present folder that are examined."""
CAPTURES: Final = 3
RUNS: Final = 5
"""Maximum numbers of captures and of running proxies that are offered, the newest first."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A command line of kproxy, and what it shows. A choice with a gap to fill in, such as HOST:PORT, cannot be run."""

    words: tuple[str, ...]
    meaning: str
    complete: bool = True

    @property
    def text(self) -> str:
        return escape(f"kproxy {shlex.join(self.words)}" if self.complete else f"kproxy {' '.join(self.words)}")


def choices(folder: Path) -> list[Choice]:
    """The choices on this machine: running proxies, captures in a folder, the demo, and how to run a proxy."""
    found = [*islice(_running(), RUNS)]
    captures = _captures(folder)
    found += [Choice(("replay", name), "look at this capture") for name in captures]
    found += [Choice(("findings", name), "say what is wrong in it") for name in captures[:1]]
    found.append(Choice(("demo",), "watch real clients talk to an embedded cluster"))
    meaning = "forward clients to a cluster and watch the traffic"
    return [*found, Choice(("run", "--upstream", "HOST:PORT"), meaning, complete=False)]


def _running() -> Iterator[Choice]:
    from kproxy.runs.registry import runs

    for run in reversed(list(runs())):
        if run.recording is not None:
            yield Choice(("attach", run.name or str(run.pid)), "watch this running proxy")


def _captures(folder: Path) -> list[str]:
    """Names of the newest captures in a folder; [] if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            found = [
                (entry.stat().st_mtime, entry.name)
                for entry in islice(entries, MOST_FILES)
                if is_capture_name(entry.name) and not entry.name.startswith("-") and entry.is_file()
            ]
    except OSError:
        return []
    return [name for _, name in sorted(found, reverse=True)[:CAPTURES]]


def lines(found: Sequence[Choice], *, numbered: bool) -> Iterator[str]:
    """The choices as text, with numbers if the user can choose."""
    width = max(len(choice.text) for choice in found)
    number = 0
    for choice in found:
        number += choice.complete
        mark = f"{number} " if numbered and choice.complete else "  "
        yield f"  {mark if numbered else ''}{choice.text:<{width}}  {choice.meaning}"
    yield ""
    yield "kproxy --help lists all commands, kproxy COMMAND --help explains one."


def choose() -> Exit:
    """Prints the choices; in a terminal, runs the one that the user names by its number.

    Returns the exit code: USAGE if nobody can choose, as in a script that lacks a command.
    """
    found = choices(Path())
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    click.echo(
        "kproxy shows what passes between Kafka's clients and brokers. What you can do here:\n", err=not terminal
    )
    for line in lines(found, numbered=terminal):
        click.echo(line, err=not terminal)
    if not terminal:
        return Exit.USAGE
    complete = [choice for choice in found if choice.complete]
    numbers = click.Choice(["", *(str(number) for number in range(1, len(complete) + 1))])
    question = f"1 to {len(complete)}, or enter to leave"
    wanted = click.prompt(question, "", show_default=False, show_choices=False, type=numbers)
    if wanted:
        os.execv(COMMAND[0], [*COMMAND, *complete[int(wanted) - 1].words])  # noqa: S606 (no shell is needed)
    return Exit.OK
