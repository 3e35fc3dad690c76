"""HTTP requests to a schema registry, limited in time and size, with credentials from the environment."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import urllib3

CONNECT_SECONDS: Final = 2.0
READ_SECONDS: Final = 3.0
TOTAL_SECONDS: Final = 5.0
LARGEST: Final = 8 << 20
"""Largest size in bytes of a response."""


class UnreachableError(Exception):
    """The registry does not answer; the message says why and does not contain the registry's address."""


class RefusedError(Exception):
    """The registry answers, but not with a usable schema.

    `status` is the HTTP status, or 0 if the content of the answer is invalid.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Access:
    """Credentials for a registry, as HTTP headers, and the CA file that verifies the registry (None: default CAs)."""

    headers: Mapping[str, str]
    ca_file: str | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Access:
        """Reads the environment variables KPROXY_REGISTRY_TOKEN, _USER and _PASSWORD, and _CA.

        A token takes precedence over user and password.
        """
        headers: dict[str, str] = {}
        user, token = environment.get("KPROXY_REGISTRY_USER"), environment.get("KPROXY_REGISTRY_TOKEN")
        if token:
            headers["Authorization"] = f"Bearer {token}"
        elif user:
            password = environment.get("KPROXY_REGISTRY_PASSWORD", "")
            headers = urllib3.make_headers(basic_auth=f"{user}:{password}")
        return cls(headers, environment.get("KPROXY_REGISTRY_CA") or None)


class Http:
    """An HTTP client for one registry. Not thread-safe."""

    def __init__(self, access: Access) -> None:
        self._pool = urllib3.PoolManager(
            headers={"Accept": "application/vnd.schemaregistry.v1+json, application/json, */*", **access.headers},
            ca_certs=access.ca_file,
            retries=False,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
        )

    def get(self, url: str) -> bytes:
        """The body of the response to a GET request. Raises UnreachableError, RefusedError.

        Redirects are refused, because the credentials are for this address only.
        """
        deadline = time.monotonic() + TOTAL_SECONDS
        try:
            answer = self._pool.request("GET", url, preload_content=False, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            raise UnreachableError(_said(error)) from None
        except ValueError as error:
            raise UnreachableError(str(error)) from None
        try:
            body = bytearray()
            while chunk := answer.read1(1 << 16, decode_content=True):
                body += chunk
                if len(body) > LARGEST:
                    raise RefusedError(f"an answer of more than {LARGEST} bytes")
                if time.monotonic() > deadline:
                    raise UnreachableError(f"no complete answer in {TOTAL_SECONDS:.0f} s")
        except urllib3.exceptions.HTTPError as error:
            raise UnreachableError(_said(error)) from None
        finally:
            answer.close()
        if answer.status != 200:
            raise RefusedError(_status(answer.status), answer.status)
        return bytes(body)


def address(text: str) -> str:
    """Checks a registry's address; returns it without a trailing slash.

    The text of the ValueError omits the address.
    """
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("a registry's address begins with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "a registry's address must not contain a user or password: "
            "set KPROXY_REGISTRY_USER and KPROXY_REGISTRY_PASSWORD"
        )
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def _status(status: int) -> str:
    if status in {401, 403}:
        return f"not authorised ({status})"
    if status == 404:
        return "not found (404)"
    if 300 <= status < 400:
        return f"the registry redirects to another address ({status}): give the new address"
    return f"the registry answers {status}"


def _said(error: Exception) -> str:
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return "its host is unknown"
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError) and not refused:
        return f"no connection in {CONNECT_SECONDS:.0f} s"
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return f"no answer in {READ_SECONDS:.0f} s"
    if isinstance(error, urllib3.exceptions.SSLError):
        return f"TLS: {error}"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__
