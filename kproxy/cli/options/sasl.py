"""Options of `kproxy run` for authenticating to brokers on behalf of clients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli import settings as cli
from kproxy.cli.exits import Exit, Failure

if TYPE_CHECKING:
    from kproxy.runs.settings import SaslSettings, Settings

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
MECHANISMS: Mapping[str, str] = {
    "plain": "PLAIN",
    "scram-sha-256": "SCRAM-SHA-256",
    "scram-sha-512": "SCRAM-SHA-512",
    "oauthbearer": "OAUTHBEARER",
}


def authenticating(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --sasl and --sasl-credentials; the command gets `sasl`, a SaslSettings."""

    @click.option(
        "--sasl",
        "mechanism",
        type=click.Choice(list(MECHANISMS), case_sensitive=False),
        help="Authenticate to brokers on behalf of the clients, which then connect without SASL.",
    )
    @click.option(
        "--sasl-credentials",
        "credentials",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="File with username=NAME and password=SECRET, or with a token and its extensions (default: the "
        "variables KPROXY_SASL_USERNAME and KPROXY_SASL_PASSWORD, or KPROXY_SASL_TOKEN).",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, mechanism: str | None, credentials: Path | None, **rest: Any) -> Any:
        if credentials is not None and mechanism is None:
            raise Failure("--sasl-credentials needs --sasl", Exit.USAGE)
        return command(*args, sasl=settings(mechanism, credentials), **rest)

    return wrapped


def settings(mechanism: str | None, credentials: Path | None) -> SaslSettings:
    """The settings for the relay. Paths are absolute, because the relay's working directory may differ."""
    from kproxy.runs.settings import SaslSettings

    path = None if credentials is None else str(credentials.absolute())
    return SaslSettings(MECHANISMS.get(mechanism or "", ""), path)


def checked(chosen: Settings) -> Settings:
    """The settings, unchanged. Raises Failure if a cluster's credentials cannot be used.

    Warns of secrets sent unencrypted and of listeners that other hosts can reach.
    """
    from kproxy.core.login import OAUTHBEARER, PLAIN
    from kproxy.relay import credentials

    for one in chosen.clusters():
        if not one.sasl.mechanism:
            continue
        try:
            credentials.load(one.sasl)
        except credentials.CredentialsError as error:
            raise Failure(f"--sasl: {error}", Exit.USAGE) from None
        if not one.tls.out and one.sasl.mechanism in {PLAIN, OAUTHBEARER}:
            cli.warn(f"--sasl without --tls-out: {one.sasl.mechanism} sends the secret itself, unencrypted")
        if one.listen_host not in LOOPBACK and not one.tls.in_ca:
            who = f"that reaches {one.listen_host}" if one.transparent is None else "whose connections are redirected"
            cli.warn(f"--sasl: every client {who} acts on the cluster as kproxy's user")
    return chosen


def of_cluster(chosen: SaslSettings, values: Mapping[str, Any]) -> SaslSettings:
    """SASL settings of one cluster: from its `values`, or from `chosen` if "sasl" or "sasl-credentials" is absent."""
    own = {"mechanism": values.get("sasl"), "credentials": values.get("sasl-credentials")}
    return replace(chosen, **{name: value for name, value in own.items() if value is not None})


def mechanism(text: str) -> str:
    """Parses the name of a mechanism in MECHANISMS. Raises ValueError."""
    if text.lower() not in MECHANISMS:
        raise ValueError(f"unknown mechanism {text!r}; there are {', '.join(MECHANISMS)}")
    return MECHANISMS[text.lower()]
