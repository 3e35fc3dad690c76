"""`kproxy ca`: the CA that issues the certificates of `kproxy run --tls-in auto`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.extras import require
from kproxy.cli.terminal import forcing, output, refuse_existing

_FILE = click.Path(dir_okay=False, path_type=Path)
_LEAST_PASSWORD = 6
"""Minimum length in characters of a truststore's password: Java's keytool refuses truststores with shorter ones."""


@click.command()
@click.option(
    "--export", "pem", type=_FILE, metavar="FILE", help="Write the certificate as PEM (- is standard output)."
)
@click.option("--truststore", type=_FILE, metavar="FILE", help="Write a PKCS#12 truststore for Java.")
@click.option("--password-env", metavar="VARIABLE", help="Environment variable with the truststore's password.")
@click.option("--renew", is_flag=True, help="Make a new CA; all clients need the new certificate.")
@forcing
def command(pem: Path | None, truststore: Path | None, password_env: str | None, renew: bool) -> None:
    """Show kproxy's own certificate authority, and export what clients need to trust it.

    `kproxy run --tls-in auto` shows each client a certificate that this CA made for the host it asked for. The CA is
    made on first use; its key stays in your data directory, where only you can read it.

    \b
    kproxy ca
    kproxy ca --export kproxy-ca.pem
    TRUST=changeit kproxy ca --truststore kproxy.p12 --password-env TRUST
    """  # noqa: D301 (\b keeps click from joining the lines)
    require("kproxy ca", "cryptography", "security")
    from kproxy.tls.authority import Authority, default_directory
    from kproxy.tls.errors import AuthorityError

    password = _password(truststore, password_env)
    for path in (pem, truststore):
        refuse_existing(path)
    try:
        authority = (Authority.renew if renew else Authority.open)(default_directory())
    except AuthorityError as error:
        raise Failure(str(error), Exit.USAGE) from None
    if pem is not None:
        _write(pem, authority.pem)
    if truststore is not None:
        _write(truststore, authority.truststore(password))
    facts = {
        "certificate": str(authority.path),
        "fingerprint": authority.fingerprint,
        "expires": f"{authority.expires:%Y-%m-%dT%H:%M:%SZ}",
    }
    if settings.current().json:
        import json

        click.echo(json.dumps(facts))
    elif pem != Path("-") and truststore != Path("-"):
        for name, value in facts.items():
            click.echo(f"{name:12} {value}")


def _password(truststore: Path | None, variable: str | None) -> bytes:
    if truststore is None:
        return b""
    if variable is None:
        raise Failure("--truststore needs --password-env, the variable that holds its password", Exit.USAGE)
    value = os.environ.get(variable, "")
    if len(value) < _LEAST_PASSWORD:
        raise Failure(
            f"--password-env: {variable} must hold a password of at least {_LEAST_PASSWORD} characters", Exit.USAGE
        )
    return value.encode()


def _write(path: Path, data: bytes) -> None:
    try:
        with output(path, ()) as file:
            file.write(data)
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror or error}", Exit.USAGE) from None
