"""Options of `kproxy run` for transparent mode, and the settings that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.exits import Exit, Failure

if TYPE_CHECKING:
    from kproxy.runs.settings import Settings


class _Ports(click.ParamType[Any]):
    name = "ports"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        words = [word.strip() for word in value.split(",")]
        if not all(word.isdecimal() and 0 < int(word) < 1 << 16 for word in words):
            self.fail(f"{value!r} is not a list of ports (9092,9093)", param, ctx)
        return tuple(dict.fromkeys(map(int, words)))


_OPTIONS = (
    click.option(
        "--transparent",
        type=click.Choice(["redirect", "tproxy"]),
        help="Instead of --upstream: redirect connections that clients open to brokers, by iptables rules.",
    ),
    click.option(
        "--ports",
        default="9092",
        show_default=True,
        type=_Ports(),
        metavar="PORT[,...]",
        help="Ports of brokers; connections to them are redirected (--transparent).",
    ),
    click.option(
        "--clients",
        type=click.Choice(["all", "local", "remote"]),
        default="all",
        show_default=True,
        help="Clients whose connections are redirected: on this machine, on others (for tproxy only these), or all.",
    ),
    click.option(
        "--setup", is_flag=True, help="Install the rules (root); they are removed when kproxy exits, however it ends."
    ),
    click.option(
        "--print-rules", is_flag=True, help="Print the rules as a shell script, to install them yourself, and exit."
    ),
)


_EXCLUDED = {
    "upstream": "--upstream",
    "check": "--check",
    "clusters": "--cluster",
    "controllers": "--controllers",
    "strict_ports": "--strict-ports",
    "upstream_proxy": "--upstream-proxy",
}
"""Options that transparent mode excludes, by parameter; values from the configuration are ignored."""


def transparent_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options to a command, which gets them as `transparent`, `ports`, `clients`, `setup`, `print_rules`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def intercepting(
    chosen: Settings, *, transparent: str | None, ports: tuple[int, ...], clients: str, setup: bool, print_rules: bool
) -> Settings:
    """`chosen` with the options of transparent mode; --print-rules prints the rules and exits. Raises Failure."""
    import dataclasses

    from click.core import ParameterSource

    from kproxy.runs.settings import LISTEN_HOST
    from kproxy.transparent import netfilter
    from kproxy.transparent.rules import Rules

    if transparent is None:
        if setup or print_rules:
            raise Failure("--setup and --print-rules belong to --transparent redirect or tproxy", Exit.USAGE)
        return chosen
    context = click.get_current_context()
    for name, option in _EXCLUDED.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise Failure(f"{option} and --transparent exclude each other: each client names its broker", Exit.USAGE)
    if chosen.listen_host not in {LISTEN_HOST, "*"}:
        raise Failure("with --transparent the relay listens on every address: --listen takes a port alone", Exit.USAGE)
    if transparent == "tproxy" and clients == "all":
        clients = "remote"
    try:
        rules = Rules(transparent, chosen.listen_port, ports, clients, netfilter.families())
    except ValueError as error:
        raise Failure(str(error), Exit.USAGE) from None
    if print_rules:
        _print(rules)
        context.exit(Exit.OK)
    if setup and (why := netfilter.lacking(transparent)) is not None:
        raise Failure(why, Exit.PERMISSION)
    return dataclasses.replace(
        chosen,
        upstream=(),
        listen_host="*",
        transparent=transparent,
        ports=ports,
        clients=clients,
        setup=setup,
        probe=False,
    )


def _print(rules: Any) -> None:
    from kproxy.transparent.rules import text

    click.echo(text(rules.install()), nl=False)
    click.echo("\n# To remove them:")
    for line in text(rules.remove()).splitlines():
        click.echo(f"# {line}")


def taken(chosen: Settings, bootstrap: str) -> str:
    """Which connections are redirected to the relay, in words; "" without transparent mode."""
    if chosen.transparent is None:
        return ""
    which = f"connections to port{'s' if len(chosen.ports) > 1 else ''} {', '.join(map(str, chosen.ports))}"
    how = "are redirected" if chosen.setup else "must be redirected by rules that you install (--print-rules)"
    return f"{which} {how} ({chosen.transparent}, on port {bootstrap.rpartition(':')[2]})"
