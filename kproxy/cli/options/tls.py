"""Options of `kproxy run` for TLS with clients and with brokers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli import settings as cli
from kproxy.cli.exits import Exit, Failure

if TYPE_CHECKING:
    from kproxy.runs.settings import TlsSettings

_FILE = click.Path(dir_okay=False, path_type=Path)

_OPTIONS = (
    click.option(
        "--tls-in",
        default="",
        metavar="auto|CERT[,KEY]",
        help="Speak TLS with clients: certificates from kproxy's own CA (see kproxy ca), or one from PEM files.",
    ),
    click.option(
        "--tls-in-ca", type=_FILE, metavar="FILE", help="Require client certificates that these CAs (PEM) have signed."
    ),
    click.option("--tls-out", is_flag=True, help="Speak TLS with the cluster, and verify its certificates."),
    click.option(
        "--tls-out-ca", type=_FILE, metavar="FILE", help="CAs (PEM) to trust in place of the system's."
    ),
    click.option(
        "--tls-out-cert", default="", metavar="CERT[,KEY]", help="Certificate (PEM) to present to brokers (mutual TLS)."
    ),
    click.option(
        "--tls-out-name", metavar="NAME", help="Server name to ask for and to verify in place of a broker's host."
    ),
    click.option("--tls-out-insecure", is_flag=True, help="Do not verify the cluster's certificates."),
    click.option(
        "--tls-keylog", type=_FILE, metavar="FILE", help="Append TLS secrets to this file, for Wireshark."
    ),
    click.option(
        "--tls-password-env", metavar="VARIABLE", help="Environment variable with the password of the key files."
    ),
)  # fmt: skip
_NAMES = (
    "tls_in", "tls_in_ca", "tls_out", "tls_out_ca", "tls_out_cert", "tls_out_name", "tls_out_insecure", "tls_keylog",
    "tls_password_env",
)  # fmt: skip
_TOWARDS_BROKERS = frozenset(
    {"tls_out", "tls_out_ca", "tls_out_cert", "tls_out_name", "tls_out_insecure", "tls_password_env"}
)
_ONLY_WITH = {
    "tls_in_ca": "tls_in",
    "tls_out_ca": "tls_out",
    "tls_out_cert": "tls_out",
    "tls_out_name": "tls_out",
    "tls_out_insecure": "tls_out",
}


def speaking_tls(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of TLS; the command gets `tls`, a TlsSettings."""

    @functools.wraps(command)
    def gathered(**values: Any) -> Any:
        return command(tls=_settings(**{name: values.pop(name) for name in _NAMES}), **values)

    with_options: Callable[..., Any] = gathered
    for option in reversed(_OPTIONS):
        with_options = option(with_options)
    return with_options


def reaching_by_tls(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds only the options of TLS with brokers; the command gets `tls`, a TlsSettings."""
    chosen = [(name, option) for name, option in zip(_NAMES, _OPTIONS, strict=True) if name in _TOWARDS_BROKERS]

    @functools.wraps(command)
    def gathered(**values: Any) -> Any:
        given = {name: values.pop(name) for name, _ in chosen}
        return command(tls=_settings(**{"tls_in": "", "tls_in_ca": None, "tls_keylog": None, **given}), **values)

    with_options: Callable[..., Any] = gathered
    for _, option in reversed(chosen):
        with_options = option(with_options)
    return with_options


def _settings(**values: Any) -> TlsSettings:
    """The settings that the options ask for. Raises Failure if an option is given without the option that it needs."""
    from kproxy.runs.settings import TlsSettings

    for name, needed in _ONLY_WITH.items():
        if values[name] and not values[needed]:
            raise Failure(f"--{name} needs --{needed}".replace("_", "-"), Exit.USAGE)
    if values["tls_keylog"] and not (values["tls_in"] or values["tls_out"]):
        raise Failure(
            "--tls-keylog needs --tls-in or --tls-out: kproxy has no secrets of TLS that passes through", Exit.USAGE
        )
    if values["tls_out_insecure"] and values["tls_out_ca"]:
        raise Failure("--tls-out-insecure and --tls-out-ca exclude each other", Exit.USAGE)
    if values["tls_out_insecure"]:
        cli.warn("--tls-out-insecure: anybody between here and the cluster can read and change what passes")
    certificate = values["tls_in"]
    return TlsSettings(
        in_certificate=certificate if certificate == TlsSettings.AUTO else _absolute(certificate),
        in_ca=_path(values["tls_in_ca"]),
        out=values["tls_out"],
        out_ca=_path(values["tls_out_ca"]),
        out_certificate=_absolute(values["tls_out_cert"]),
        out_name=values["tls_out_name"],
        out_insecure=values["tls_out_insecure"],
        keylog=_path(values["tls_keylog"]),
        password_env=values["tls_password_env"],
    )


def _absolute(files: str) -> str:
    """Makes the paths of "CERT[,KEY]" absolute, because the relay's working directory may differ."""
    return ",".join(str(Path(file).absolute()) for file in files.split(",")) if files else ""


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def client_lines(tls: TlsSettings) -> Iterator[str]:
    """The client settings needed besides bootstrap.servers."""
    if tls.in_certificate:
        yield "security.protocol=SSL"
    if tls.in_certificate == tls.AUTO:
        from kproxy.tls.authority import CERTIFICATE_FILE, default_directory

        yield "ssl.truststore.type=PEM"
        yield f"ssl.truststore.location={default_directory() / CERTIFICATE_FILE}"
