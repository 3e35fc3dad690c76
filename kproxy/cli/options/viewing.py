"""Options that choose how payloads are shown."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kproxy.cli.options.types import REGISTRY, VIEW

if TYPE_CHECKING:
    from pathlib import Path

    from kproxy.decoders.payloads.choose import Chooser, Rule
    from kproxy.tui.detail.viewing import Viewers

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Viewing:
    """The options for payloads: --schemas, --registry, --registry-wait and --view."""

    schemas: Path | None = None
    registry: str | None = None
    registry_wait: float = 0.0
    rules: tuple[Rule, ...] = ()

    def payloads(self) -> Chooser | None:
        """Viewers for printed output; None if no option asks for them. Raises Failure (exit 2)."""
        if self.schemas is None and self.registry is None and not self.rules:
            return None
        return self.chooser(wait=self.registry_wait)

    def for_screen(self, *, warn: Callable[[str], None], arrived: Callable[[], None] = lambda: None) -> Viewers:
        """Viewers for the UI, like `chooser`; if no option asks for them, the first payload shown loads them."""
        if self.schemas is None and self.registry is None and not self.rules:
            from kproxy.cli.late_viewers import LateViewers

            return LateViewers(functools.partial(self.chooser, warn=warn, arrived=arrived))
        return self.chooser(warn=warn, arrived=arrived)

    def chooser(
        self,
        *,
        wait: float = 0.0,
        warn: Callable[[str], None] | None = None,
        arrived: Callable[[], None] = lambda: None,
    ) -> Chooser:
        """Viewers, whether or not an option asks for them. Raises Failure (exit 2).

        `arrived` is called from a thread when a requested schema has come; `warn` may be called from a thread too, and
        prints on standard error by default.
        """
        from kproxy.cli import settings
        from kproxy.cli.exits import Exit, Failure
        from kproxy.schemas.payloads import chooser

        try:
            return chooser(
                schemas=self.schemas,
                registry=self.registry,
                rules=self.rules,
                wait=wait,
                warn=warn or settings.warn,
                arrived=arrived,
            )
        except ValueError as error:
            raise Failure(f"--view: {error}", Exit.USAGE) from None
        except OSError as error:
            raise Failure(f"--schemas {self.schemas}: {error.strerror}", Exit.USAGE) from None


def viewing(command: Command) -> Command:
    """Adds --view, --schemas, --registry and --registry-wait; the command gets a `Viewing` as `viewing`.

    It must be the innermost decorator, next to the function.
    """

    @functools.wraps(command)
    def viewed(
        *args: Any,
        views: tuple[Rule, ...],
        schemas: Path | None,
        registry: str | None,
        registry_wait: float,
        **rest: Any,
    ) -> Any:
        return command(*args, viewing=Viewing(schemas, registry, registry_wait, views), **rest)

    options = [
        click.option(
            "--view",
            "views",
            type=VIEW,
            multiple=True,
            metavar="TOPIC[.PART]=VIEWER",
            help="Show payloads of a topic (PART: key, value or header) with this viewer: text, json, avro, hex, …",
        ),
        click.option(
            "--schemas",
            type=click.Path(path_type=pathlib.Path, exists=True, file_okay=False),
            metavar="DIR",
            help="Decode payloads with the schemas in this folder (orders-value.avsc, 42.avsc, orders-key.desc).",
        ),
        click.option(
            "--registry",
            type=REGISTRY,
            metavar="URL",
            help="Decode payloads with the schemas of this registry (KPROXY_REGISTRY_USER and _PASSWORD, or _TOKEN).",
        ),
        click.option(
            "--registry-wait",
            type=click.FloatRange(min=0, max=60),
            default=2.0,
            show_default=True,
            metavar="SECONDS",
            help="Wait at most this long for a schema of the registry.",
        ),
    ]
    wrapped: Any = viewed
    for option in reversed(options):
        wrapped = option(wrapped)
    return cast("Command", wrapped)
