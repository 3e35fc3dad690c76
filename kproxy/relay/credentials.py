"""The credentials with which kproxy authenticates on behalf of clients, from a private file or from the environment.

They are read for each authentication, so that a changed password or a new token is used at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from kproxy.captures import private
from kproxy.core.login import OAUTHBEARER, SCRAM, Credentials
from kproxy.decoders.extras import installing
from kproxy.runs.settings import SaslSettings

USERNAME, PASSWORD, TOKEN = "KPROXY_SASL_USERNAME", "KPROXY_SASL_PASSWORD", "KPROXY_SASL_TOKEN"
EXTENSIONS = "KPROXY_SASL_EXTENSIONS"
LARGEST = 1 << 18
"""Largest size in bytes of a credentials file; a token has a few thousand bytes."""
_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""The syntax of tokens that brokers accept (RFC 6750, 2.1)."""
_EXTENSION = re.compile(r"([A-Za-z]+)=([\x20-\x7e\t]+)")
"""The syntax of extensions that brokers accept (RFC 7628, 3.1)."""


class CredentialsError(Exception):
    """Credentials are missing or cannot be used; the text says why."""


def load(settings: SaslSettings) -> Credentials:
    """Loads the credentials for the settings' mechanism. Raises CredentialsError.

    A file holds the lines "username=NAME" and "password=SECRET", or else a token in the first line and extensions as
    lines "NAME=VALUE". A file that users other than its owner and group may read is refused.
    """
    if settings.mechanism in SCRAM and find_spec("scramp") is None:
        raise CredentialsError(f"{settings.mechanism} needs scramp: {installing('security')}")
    wants_token = settings.mechanism == OAUTHBEARER
    if settings.credentials is None:
        names = (TOKEN,) if wants_token else (USERNAME, PASSWORD)
        found = [os.environ.get(name, "") for name in names]
        missing = [name for name, value in zip(names, found, strict=True) if not value]
        if missing:
            raise CredentialsError(f"give --sasl-credentials FILE, or set {' and '.join(missing)}")
        if not wants_token:
            return Credentials(found[0], found[1])
        if not _BEARER.fullmatch(found[0]):
            raise CredentialsError(f"{TOKEN} is not a token: a token has letters, digits and -._~+/")
        given = [(EXTENSIONS, one.strip()) for one in os.environ.get(EXTENSIONS, "").split(",")]
        return Credentials(token=found[0], extensions=_extensions(given))
    path = Path(settings.credentials)
    text = _text(path)
    return _token(path, text) if wants_token else _named(path, text)


def _text(path: Path) -> str:
    try:
        return private.secret(path, LARGEST)
    except OSError as error:
        raise CredentialsError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise CredentialsError(str(error)) from None


def _token(path: Path, text: str) -> Credentials:
    token, *more = text.strip().splitlines() or [""]
    if not _BEARER.fullmatch(token):
        raise CredentialsError(f"{path} does not begin with a token: a line of letters, digits and -._~+/")
    lines = ((f"{path}, line {number}", line.strip()) for number, line in enumerate(more, start=2))
    return Credentials(token=token, extensions=_extensions(lines))


def _extensions(given: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Parses extensions from (position in the file or variable, text) pairs. Raises CredentialsError.

    The result maps extension names to values; errors name the position.
    """
    found: dict[str, str] = {}
    for where, text in given:
        if not text or text.startswith("#"):
            continue
        pair = _EXTENSION.fullmatch(text)
        if pair is None or pair[1].lower() == "auth" or pair[1] in found:
            form = "NAME of letters, given once; VALUE of printable ASCII"
            raise CredentialsError(f"{where}: not an extension NAME=VALUE ({form})")
        found[pair[1]] = pair[2]
    return found


def _named(path: Path, text: str) -> Credentials:
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        name, equals, value = line.partition("=")
        if not line.strip() or line.startswith("#"):
            continue
        if not equals or name.strip() not in {"username", "password"}:
            raise CredentialsError(f"{path}, line {number}: neither username=NAME nor password=SECRET")
        values[name.strip()] = value
    missing = [name for name in ("username", "password") if not values.get(name)]
    if missing:
        raise CredentialsError(f"{path} has no {' and no '.join(missing)}")
    return Credentials(values["username"], values["password"])
