"""The credentials with which kproxy authenticates on behalf of clients: a file that only its owner reads, or variables.

They are read anew for each authentication, so that a changed password and a token's successor are taken at once.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kproxy.core.login import OAUTHBEARER, Credentials
from kproxy.settings import SaslSettings

USERNAME, PASSWORD, TOKEN = "KPROXY_SASL_USERNAME", "KPROXY_SASL_PASSWORD", "KPROXY_SASL_TOKEN"
LARGEST = 1 << 18
"""Bytes of a file; a token has some thousand."""


class CredentialsError(Exception):
    """There are none, or none that may be taken."""


def load(settings: SaslSettings) -> Credentials:
    """The credentials that the mechanism wants. Raises CredentialsError.

    A file holds the token alone, or lines "username=NAME" and "password=SECRET"; nobody but its owner and its group
    may read it.
    """
    wants_token = settings.mechanism == OAUTHBEARER
    if settings.credentials is None:
        names = (TOKEN,) if wants_token else (USERNAME, PASSWORD)
        found = [os.environ.get(name, "") for name in names]
        missing = [name for name, value in zip(names, found, strict=True) if not value]
        if missing:
            raise CredentialsError(f"no --sasl-credentials FILE, and {' and '.join(missing)} not set")
        return Credentials(token=found[0]) if wants_token else Credentials(found[0], found[1])
    path = Path(settings.credentials)
    text = _text(path)
    if not wants_token:
        return _named(path, text)
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise CredentialsError(f"{path} holds no token: one line without spaces")
    return Credentials(token=token)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & stat.S_IROTH:
                raise CredentialsError(f"{path} can be read by everybody: chmod 600 {path}")
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise CredentialsError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > LARGEST:
        raise CredentialsError(f"{path} is longer than {LARGEST} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CredentialsError(f"{path} is not UTF-8") from None


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
