"""The token of the HTTP interface: from a private file, from the environment, or a new one."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from kproxy.captures import private

VARIABLE = "KPROXY_CONTROL_TOKEN"
LEAST = 16
"""Minimum length of a token that a user chooses."""
LARGEST = 4096
"""Maximum size of a token's file in bytes."""
_SYNTAX = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""The syntax of bearer tokens (RFC 6750, 2.1)."""


class TokenError(Exception):
    """There is no token that can be used; the text says why."""


def given(path: Path | None, variable: str = VARIABLE) -> str | None:
    """The token in a file, else the one in an environment variable; None if there is neither. Raises TokenError.

    If the file does not exist, it is made, with a new token in it, and with no access for other users.
    """
    if path is None:
        found = os.environ.get(variable)
        return None if found is None else _checked(found, variable)
    try:
        if not path.exists():
            private.replace(path, f"{new()}\n")
        return _checked(private.secret(path, LARGEST).strip(), str(path))
    except OSError as error:
        raise TokenError(f"cannot use {path} for the token: {error.strerror}") from None
    except ValueError as error:
        raise TokenError(str(error)) from None


def new() -> str:
    return secrets.token_urlsafe(32)


def _checked(token: str, where: str) -> str:
    if len(token) < LEAST or not _SYNTAX.fullmatch(token):
        text = f"{where} holds no token: a token has at least {LEAST} characters, of letters, digits and -._~+/"
        raise TokenError(text)
    return token
