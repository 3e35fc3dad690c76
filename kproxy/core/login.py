"""Authentication by SASL on a client's behalf, without sockets: what to ask the broker next, given its last answer.

The order is Kafka's own (KIP-43, KIP-152): ApiVersions tells which versions there are, SaslHandshake v1 names the
mechanism, SaslAuthenticate carries the mechanism's messages. The last answer says how long the session lasts (KIP-368);
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
"""Of SCRAM, which is computed while traffic waits; Kafka itself takes at most 16384."""
NEWEST_AUTHENTICATE: Final = 2
_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE = 33, 34


class LoginError(Exception):
    """The broker refuses, or does not say what the mechanism wants; the text goes on "the broker …"."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a mechanism asks for: a name with its password, or a token with the extensions (KIP-342) sent beside it."""

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request: `auth` is the message of the mechanism in it, which holds secrets."""

    api_key: int
    version: int
    body: Mapping[str, Any]
    auth: bytes = b""


@dataclass(frozen=True, slots=True)
class Granted:
    """The broker has let us in; `lifetime_ms` is for how long, 0 where no end is set."""

    lifetime_ms: int
    version: int
    """Of SaslAuthenticate."""


Answer = Mapping[str, Any]
Steps = Generator[Ask, Answer, Granted]


def login(mechanism: str, credentials: Credentials, version: int | None = None) -> Steps:
    """The requests of one authentication; send each answer's body. Raises LoginError.

    `version` is that of SaslAuthenticate where it is known already.
    """
    if version is None:
        version = _version((yield Ask(API_VERSIONS, 0, {})))
    answer = yield Ask(SASL_HANDSHAKE, 1, {"mechanism": mechanism})
    if code := answer["errorCode"]:
        raise LoginError(_handshake_refused(code, mechanism, answer.get("mechanisms") or ()))
    lifetime = yield from _MESSAGES[mechanism](mechanism, credentials, version)
    return Granted(lifetime, version)


def _version(answer: Answer) -> int:
    """The version of SaslAuthenticate that the broker speaks too."""
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
    """One message of the mechanism; (the broker's, session lifetime in ms)."""
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
    """RFC 7628. A broker that refuses says so in a message that wants an answer before the error comes."""
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
    """RFC 5802. The broker shows that it knows the password too."""
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
