"""SASL authentication on a client's behalf, without sockets: takes the broker's last response, yields the next request.

The order is Kafka's own (KIP-43, KIP-152): the response to ApiVersions lists the broker's versions, SaslHandshake v1
names the mechanism, SaslAuthenticate carries the mechanism's messages. The last response holds the session's lifetime
(KIP-368); re-authentication repeats all steps but ApiVersions.
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
"""Maximum number of SCRAM iterations: kproxy computes them while traffic waits. Kafka itself allows at most 16384."""
NEWEST_AUTHENTICATE: Final = 2
_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE = 33, 34


class LoginError(Exception):
    """The broker refuses the credentials or violates the protocol; the text completes "the broker …"."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials for SASL: user name and password, or a token with its extensions (KIP-342)."""

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the broker; `auth` is the part of it that holds secrets: the mechanism's message."""

    api_key: int
    version: int
    body: Mapping[str, Any]
    auth: bytes = b""


@dataclass(frozen=True, slots=True)
class Granted:
    """The broker has accepted the authentication for `lifetime_ms` milliseconds; 0 means without limit."""

    lifetime_ms: int
    version: int
    """The version of SaslAuthenticate that was used."""


Answer = Mapping[str, Any]
Steps = Generator[Ask, Answer, Granted]


def login(mechanism: str, credentials: Credentials, version: int | None = None) -> Steps:
    """A generator of the requests of one authentication; send it the body of each response. Raises LoginError.

    `version` is the version of SaslAuthenticate; with None, the first request is ApiVersions, to choose the version.
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
        raise LoginError("does not support SaslAuthenticate: kproxy authenticates to Kafka 1.0 and newer")
    return min(NEWEST_AUTHENTICATE, most[SASL_AUTHENTICATE])


def _handshake_refused(code: int, mechanism: str, offered: Any) -> str:
    if code == _ILLEGAL_STATE:
        return "does not support SASL on this listener"
    if code == _UNSUPPORTED_MECHANISM:
        return f"does not offer {mechanism} (it offers: {', '.join(map(str, offered)) or 'nothing'})"
    return f"refuses {mechanism}: {errors.name(code)}"


def _say(auth: bytes, version: int) -> Generator[Ask, Answer, tuple[bytes, int]]:
    """Sends one message of the mechanism; returns (the broker's message, session lifetime in ms)."""
    answer = yield Ask(SASL_AUTHENTICATE, version, {"authBytes": auth}, auth)
    if code := answer["errorCode"]:
        said = answer.get("errorMessage")
        raise LoginError(f"refuses kproxy's credentials: {errors.name(code)}" + (f": {said}" if said else ""))
    return bytes(answer.get("authBytes") or b""), answer.get("sessionLifetimeMs", 0)


def _plain(mechanism: str, who: Credentials, version: int) -> Generator[Ask, Answer, int]:
    """Authenticates with PLAIN (RFC 4616); returns the session lifetime in ms."""
    del mechanism
    _, lifetime = yield from _say(f"\0{who.username}\0{who.password}".encode(), version)
    return lifetime


def _oauthbearer(mechanism: str, who: Credentials, version: int) -> Generator[Ask, Answer, int]:
    """Authenticates with OAUTHBEARER (RFC 7628); returns the session lifetime in ms.

    A broker that refuses the token first sends a message with the reason; it sends the error only after kproxy has
    answered this message.
    """
    del mechanism
    pairs = {"auth": f"Bearer {who.token}", **who.extensions}
    said, lifetime = yield from _say("\1".join(["n,,", *map("=".join, pairs.items()), "", ""]).encode(), version)
    if said:
        yield from _say(b"\1", version)
        found = read(said)
        why = None if found is None else found.refused
        raise LoginError(f"refuses the token: {why or 'no reason is given'}")
    return lifetime


def _scram(mechanism: str, who: Credentials, version: int) -> Generator[Ask, Answer, int]:
    """Authenticates with SCRAM (RFC 5802), which also verifies that the broker knows the password.

    Returns the lifetime in ms.
    """
    from scramp import ScramClient, ScramException

    try:
        client = ScramClient([mechanism], who.username, who.password)
        said, _ = yield from _say(client.get_client_first().encode(), version)
        found = read(said)
        iterations = None if found is None else found.get("iterations")
        if not isinstance(iterations, int) or iterations > MOST_ITERATIONS:
            raise LoginError(
                f"asks for {iterations} iterations of {mechanism}; kproxy computes at most {MOST_ITERATIONS}"
            )
        client.set_server_first(said.decode())
        said, lifetime = yield from _say(client.get_client_final().encode(), version)
        client.set_server_final(said.decode())
    except (ScramException, ValueError) as error:
        raise LoginError(f"sends an invalid {mechanism} message: {error}") from None
    return lifetime


_MESSAGES: Final = {PLAIN: _plain, OAUTHBEARER: _oauthbearer, **dict.fromkeys(SCRAM, _scram)}
