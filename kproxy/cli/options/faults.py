"""Options of `kproxy run` for rules that act on traffic."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from kproxy.cli.options.types import LINE

Command = TypeVar("Command", bound=Callable[..., Any])


INTERCEPT = "intercept"
"""The name of the rule that --intercept makes; further ones have numbers."""


@dataclass(slots=True)
class Faults:
    """The values of --fault, --faults, --fault-seed, --intercept and --intercept-response."""

    texts: tuple[str, ...] = ()
    file: Path | None = None
    seed: int | None = None
    intercepted: tuple[str, ...] = ()
    """Rules that intercept frames, made of --intercept and --intercept-response."""
    over_http: bool = False
    """Whether rules may be added later over HTTP (--control)."""
    greeting: list[str] = field(default_factory=list)
    """Lines that describe the rules to the user; `check` adds them."""

    @property
    def _can_act(self) -> bool:
        return bool(self.texts or self.intercepted) or self.file is not None or self.over_http

    @property
    def settings(self) -> dict[str, Any]:
        """Fields of kproxy.runs.settings.Settings."""
        if not self._can_act:
            return {}
        if self.seed is None:
            import secrets

            self.seed = secrets.randbelow(1 << 32)
        path = None if self.file is None else str(self.file.absolute())
        return {"faults": (*self.texts, *self.intercepted), "faults_file": path, "fault_seed": self.seed}

    def check(self, release: str | None, user_definitions: Sequence[str]) -> None:
        """Reads all rules. Raises UsageError (exit 2) if one cannot be used."""
        if not self._can_act:
            return
        from kproxy.captures.definitions import definitions
        from kproxy.faults.files import load
        from kproxy.faults.trouble import FaultsError

        try:
            rules = load((*self.texts, *self.intercepted), self.file, definitions(release, tuple(user_definitions)))
        except FaultsError as error:
            raise click.UsageError(str(error)) from None
        count = f"{len(rules)} rule{'' if len(rules) == 1 else 's'}"
        if self.over_http and not rules:
            count = "rules that come over HTTP"
        self.greeting.append(f"{count} can change traffic (kproxy faults list); --fault-seed {self.seed}")

    @contextlib.contextmanager
    def interception(self, run_dir: Path) -> Iterator[None]:
        """While the context lasts, prints intercepted frames and takes decisions from standard input."""
        from kproxy.runs.intercepting import Interception

        names = tuple(text.partition(":")[0] for text in self.intercepted)
        found = Interception(run_dir, names, sys.stdin.fileno(), click.echo)
        found.start()
        try:
            yield
        finally:
            found.stop()


def faulting(command: Command) -> Command:
    """Adds --fault, --faults, --fault-seed and --intercept; the command gets a `Faults` as `faults`."""

    @wraps(command)
    def collected(
        *args: Any,
        fault: tuple[str, ...],
        faults: Path | None,
        fault_seed: int | None,
        intercept: tuple[str, ...],
        intercept_response: tuple[str, ...],
        **kwargs: Any,
    ) -> Any:
        asked = [*((text, "request") for text in intercept), *((text, "response") for text in intercept_response)]
        rules = tuple(
            f"{INTERCEPT}{number if number > 1 else ''}: {text} => intercept {side}"
            for number, (text, side) in enumerate(asked, 1)
        )
        return command(*args, faults=Faults(fault, faults, fault_seed, rules), **kwargs)

    options = [
        click.option(
            "--fault",
            multiple=True,
            type=LINE,
            metavar="RULE",
            help="Act on traffic: MATCH => ACTION, TRIGGER (docs/faults.md); repeatable.",
        ),
        click.option(
            "--faults",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="Act on traffic by the rules of a file in YAML or JSON; SIGHUP reads it again.",
        ),
        click.option(
            "--intercept",
            multiple=True,
            type=LINE,
            metavar="EXPR",
            help="Hold requests that match until you decide about each: in the terminal UI, or with --headless by JSON "
            "lines on standard output and input (docs/intercepting.md).",
        ),
        click.option(
            "--intercept-response",
            multiple=True,
            type=LINE,
            metavar="EXPR",
            help="Hold responses that match until you decide about each.",
        ),
        click.option(
            "--fault-seed",
            type=click.IntRange(min=0),
            metavar="N",
            help="Seed of the rules' random choices (default: a new one, which is printed).",
        ),
    ]
    wrapped: Any = collected
    for option in reversed(options):
        wrapped = option(wrapped)
    return cast("Command", wrapped)
