"""SASL authentication on a client's behalf, without sockets: the next request, given the broker's last response.

The order is Kafka's own (KIP-43, KIP-152): ApiVersions tells which versions the broker has, SaslHandshake v1 names the
mechanism, SaslAuthenticate carries the mechanism's messages. The last response has the session's lifetime (KIP-368);
re-authentication repeats all but the first step.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kproxy.decoders.sasl.tokens import read
from kproxy.decoders.schema import errors
from kproxy.decoders.schema.api_keys import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE

PLAIN: Final = "PLAIN"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, *SCRAM, OAUTHBEARER)

MOST_ITERATIONS: Final = 1 << 17
"""Most SCRAM iterations: they are computed while traffic waits. Kafka itself takes at most 16384."""
NEWEST_AUTHENTICATE: Final = 2
_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE = 33, 34


class LoginError(Exception):
    """The broker refuses, or breaks the mechanism's rules; the text completes a sentence that begins "the broker …"."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a mechanism: user name and password, or a token with the extensions (KIP-342) sent with it."""

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the broker; `auth` is the mechanism's message in it, which holds secrets."""

    api_key: int
    version: int
    body: Mapping[str, Any]
    auth: bytes = b""


@dataclass(frozen=True, slots=True)
class Granted:
    """The broker has accepted the authentication for `lifetime_ms`; 0 is without end."""

    lifetime_ms: int
    version: int
    """The version of SaslAuthenticate that was used."""


Answer = Mapping[str, Any]
Steps = Generator[Ask, Answer, Granted]


def login(mechanism: str, credentials: Credentials, version: int | None = None) -> Steps:
    """Yields the requests of one authentication and is sent the body of each response. Raises LoginError.

    `version` is the version of SaslAuthenticate, or None where ApiVersions must be asked for it.
    """
    if version is None:
        version = _version((yield Ask(API_VERSIONS, 0, {})))
    answer = yield Ask(SASL_HANDSHAKE, 1, {"mechanism": mechanism})
    if code := answer["errorCode"]:
        raise LoginError(_handshake_refused(code, mechanism, answer.get("mechanisms") or ()))
    lifetime = yield from _MESSAGES[mechanism](mechanism, credentials, version)
    return Granted(lifetime, version)


def _version(answer: Answer) -> int:
    """The newest version of SaslAuthenticate that the broker and kproxy both have. Raises LoginError."""
    most: dict[int, int] = {api["apiKey"]: api["maxVersion"] for api in answer.get("apiKeys") or ()}
    if most.get(SASL_HANDSHAKE, -1) < 1 or SASL_AUTHENTICATE not in most:
        raise LoginError("knows no SaslAuthenticate, which Kafka has since 1.0")
    return min(NEWEST_AUTHENTICATE, most[SASL_AUTHENTICATE])


def _handshake_refused(code: int, mechanism: str, offered: Any) -> str:
    if code == _ILLEGAL_STATE:
        return "authenticates nobody by SASL on this listener"
    if code == _UNSUPPORTED_MECHANISM:
        return f"does not offer {mechanism}, but {', '.join(map(str, offered)) or 'nothing'}"
    return f"refuses {mechanism}: {errors.name(code)}"


def _say(auth: bytes, version: int) -> Generator[Ask, Answer, tuple[bytes, int]]:
    """Sends one message of the mechanism; returns (the broker's message, session lifetime in ms)."""
    answer = yield Ask(SASL_AUTHENTICATE, version, {"authBytes": auth}, auth)
    if code := answer["errorCode"]:
        said = answer.get("errorMessage")
        raise LoginError(f"refuses: {errors.name(code)}" + (f": {said}" if said else ""))
    return bytes(answer.get("authBytes") or b""), answer.get("sessionLifetimeMs", 0)


def _plain(mechanism: str, who: Credentials, version: int) -> Generator[Ask, Answer, int]:
    """RFC 4616."""
    del mechanism
    _, lifetime = yield from _say(f"\0{who.username}\0{who.password}".encode(), version)
    return lifetime


def _oauthbearer(mechanism: str, who: Credentials, version: int) -> Generator[Ask, Answer, int]:
    """RFC 7628. A broker that refuses sends a message with the reason, and the error only after an answer to it."""
    del mechanism
    pairs = {"auth": f"Bearer {who.token}", **who.extensions}
    said, lifetime = yield from _say("\1".join(["n,,", *map("=".join, pairs.items()), "", ""]).encode(), version)
    if said:
        yield from _say(b"\1", version)
        found = read(said)
        why = None if found is None else found.refused
        raise LoginError(f"refuses the token: {why or 'it does not say why'}")
    return lifetime


def _scram(mechanism: str, who: Credentials, version: int) -> Generator[Ask, Answer, int]:
    """RFC 5802. The broker proves that it knows the password too."""
    from scramp import ScramClient, ScramException

    try:
        client = ScramClient([mechanism], who.username, who.password)
        said, _ = yield from _say(client.get_client_first().encode(), version)
        found = read(said)
        iterations = None if found is None else found.get("iterations")
        if not isinstance(iterations, int) or iterations > MOST_ITERATIONS:
            raise LoginError(f"wants {iterations} iterations of {mechanism}")
        client.set_server_first(said.decode())
        said, lifetime = yield from _say(client.get_client_final().encode(), version)
        client.set_server_final(said.decode())
    except (ScramException, ValueError) as error:
        raise LoginError(f"does not say what {mechanism} wants: {error}") from None
    return lifetime


_MESSAGES: Final = {PLAIN: _plain, OAUTHBEARER: _oauthbearer, **dict.fromkeys(SCRAM, _scram)}
