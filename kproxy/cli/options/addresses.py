"""Options of `kproxy run` about addresses: clusters, ports, and the proxy towards the brokers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import click

from kproxy.cli.exits import Exit, Failure

if TYPE_CHECKING:
    from kproxy.runs.settings import Settings

Command = Callable[..., Any]
PORT = click.IntRange(1, 65535)

NO_CLUSTER = "no cluster: --upstream HOST:PORT, [clusters.NAME] in the configuration, or --transparent"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Values of --cluster, --controllers, --strict-ports and --upstream-proxy; `applied` puts them into settings."""

    clusters: tuple[str, ...] = ()
    controllers: int | None = None
    strict_ports: bool = False
    upstream_proxy: str | None = None

    def applied(self, settings: Settings) -> Settings:
        """The settings with these values, and with the configured clusters if no upstream is given. Raises Failure.

        In transparent mode the settings stay as they are: clients use their brokers' addresses.
        """
        from kproxy.cli.clusters import clusters
        from kproxy.runs.settings import with_cluster

        if settings.transparent is not None:
            return settings
        settings = replace(
            settings,
            controllers=self.controllers,
            strict_ports=self.strict_ports,
            upstream_proxy=self.upstream_proxy,
        )
        if settings.upstream and self.clusters:
            raise Failure("--upstream and --cluster exclude each other", Exit.USAGE)
        if settings.upstream:
            return settings
        if self.controllers is not None:
            raise Failure("--controllers needs --upstream; without it, set controllers in [clusters.NAME]", Exit.USAGE)
        found = clusters(self.clusters, settings.advertise, settings.sasl)
        if not found:
            raise Failure(NO_CLUSTER, Exit.USAGE)
        first, *more = found
        one = with_cluster(settings, first)
        return replace(one, name=first.name if more else "", more=tuple(more))


class _Proxy(click.ParamType[str]):
    name = "proxy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from kproxy.runs import settings

        try:
            return settings.proxy(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def addressing(command: Command) -> Command:
    """Adds --cluster, --controllers, --strict-ports and --upstream-proxy; the command gets `addresses`."""

    @functools.wraps(command)
    def addressed(
        *args: Any,
        clusters: tuple[str, ...],
        controllers: int | None,
        strict_ports: bool,
        upstream_proxy: str | None,
        **rest: Any,
    ) -> Any:
        return command(*args, addresses=Addresses(clusters, controllers, strict_ports, upstream_proxy), **rest)

    options = [
        click.option(
            "--cluster",
            "clusters",
            multiple=True,
            metavar="NAME",
            help="Serve [clusters.NAME] of the configuration; default without --upstream: all clusters.",
        ),
        click.option(
            "--controllers",
            type=PORT,
            metavar="PORT",
            help="Serve controller N on PORT + N, and rewrite its address in DescribeQuorum.",
        ),
        click.option(
            "--strict-ports",
            is_flag=True,
            help="If the port for a broker is taken, wait for it (default: use the next free port).",
        ),
        click.option(
            "--upstream-proxy",
            type=_Proxy(),
            metavar="URL",
            help="Reach brokers through socks5://HOST:PORT or http://HOST:PORT "
            "(KPROXY_UPSTREAM_PROXY_USER and _PASSWORD).",
        ),
    ]
    wrapped: Any = addressed
    for option in reversed(options):
        wrapped = option(wrapped)
    return cast("Command", wrapped)
