"""Options of `kproxy run` for its HTTP interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kproxy.cli import settings as cli
from kproxy.cli.extras import require
from kproxy.cli.options.types import Parsed

if TYPE_CHECKING:
    from kproxy.runs.settings import ControlSettings

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(slots=True)
class Control:
    """The values of --control and --control-token-file."""

    address: tuple[str, int] | None = None
    token_file: Path | None = None
    _new: str = ""
    """The token to show to the user, if it is a new one; else ""."""

    def settings(self) -> ControlSettings | None:
        """The settings of the HTTP interface; None without --control. Raises Failure if it cannot be used."""
        if self.address is None:
            if self.token_file is not None:
                raise click.UsageError("--control-token-file needs --control")
            return None
        require("--control", "aiohttp", "control")
        from kproxy.control import token
        from kproxy.runs.settings import ControlSettings, is_local

        try:
            found = token.given(self.token_file)
        except token.TokenError as error:
            raise click.UsageError(str(error)) from None
        if found is None:
            found = self._new = token.new()
        host, port = self.address
        if not is_local(host):
            cli.warn(f"--control: {host} may be reached from other machines, over unencrypted HTTP")
        return ControlSettings(host, port, found)

    def greeting(self, url: str | None) -> list[str]:
        """Lines for the user: where the HTTP interface is, and its token if it is a new one."""
        if url is None:
            return []
        return [f"control: {url}", *([f"control token: {self._new}"] if self._new else [])]


def controlling(command: Command) -> Command:
    """Adds --control and --control-token-file; the command gets a `Control` as `control`."""

    @wraps(command)
    def collected(*args: Any, control: tuple[str, int] | None, control_token_file: Path | None, **kwargs: Any) -> Any:
        return command(*args, control=Control(control, control_token_file), **kwargs)

    options = [
        click.option(
            "--control",
            type=Parsed("address", "listen"),
            metavar="[HOST:]PORT",
            help="Accept rules over HTTP here (default host: 127.0.0.1; port 0 takes a free one).",
        ),
        click.option(
            "--control-token-file",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="File of the token for HTTP; made if missing (default: $KPROXY_CONTROL_TOKEN, or a new, printed one).",
        ),
    ]
    wrapped: Any = collected
    for option in reversed(options):
        wrapped = option(wrapped)
    return cast("Command", wrapped)
