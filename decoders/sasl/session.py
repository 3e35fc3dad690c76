"""What a connection's SASL exchanges make of it: who the client is, and for how long.

A `Session` is what is known of a connection after one of its SASL exchanges. Bodies are decoded for it where
conversations are made, because live views, exports and indexes are to see the same; a connection has a handful of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from kproxy.decoders.message import decode_request, decode_response
from kproxy.decoders.sasl.tokens import Token, read
from kproxy.decoders.schema import errors
from kproxy.decoders.schema.api_keys import SASL_AUTHENTICATE, SASL_HANDSHAKE

if TYPE_CHECKING:
    from kproxy.decoders.conversation.stream import Source
    from kproxy.decoders.exchange import Exchange, Frame
    from kproxy.decoders.schema.lookup import Definitions

_API_KEYS: Final = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE})
MOST_OFFERED: Final = 100
_LAST_STEPS: Final = frozenset({"server-final", "token"})
"""What a broker's last message may be where it lets a client in: SCRAM's signature, or something of GSSAPI."""


class State(StrEnum):
    """How far a connection's authentication is. REFUSED stands for the mechanism, FAILED for what the client showed."""

    CHOOSING = "choosing"
    AUTHENTICATING = "authenticating"
    AUTHENTICATED = "authenticated"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Session:
    """`since` is when the client was last let in (ns since the epoch), `lifetime_ms` for how long (0: no end is set).

    `offered` are the mechanisms that the listener names. The `principal` is the name that the client gives, without
    what a broker's rules make of it. `authentications` counts successes, of which all but the first are
    re-authentications (KIP-368). `error` is an error's name, or what the mechanism itself says; `message` the broker's.
    """

    state: State = State.CHOOSING
    mechanism: str | None = None
    offered: tuple[str, ...] = ()
    principal: str | None = None
    authentications: int = 0
    since: int | None = None
    lifetime_ms: int | None = None
    error: str | None = None
    message: str | None = None

    @property
    def ends(self) -> int | None:
        """When the session ends (ns since the epoch), None where no end is set."""
        return None if self.since is None or not self.lifetime_ms else self.since + self.lifetime_ms * 1_000_000

    def in_words(self) -> str:
        """In one line: "alice by SCRAM-SHA-256, authenticated 2 times, for 60 s"."""
        who = self.principal or "somebody"
        words = f"{who} by {self.mechanism or 'a mechanism that was not seen'}, {self.state.value}"
        if self.authentications > 1:
            words += f" {self.authentications} times"
        if self.state is State.AUTHENTICATED and self.lifetime_ms:
            words += f", for {self.lifetime_ms / 1000:g} s"
        return words + "".join(f": {text}" for text in (self.error, self.message) if text)

    def to_json(self) -> dict[str, Any]:
        """All but what is not known; times in nanoseconds since the epoch. `from_json` reads it."""
        values = {name: getattr(self, name) for name in self.__slots__}
        known = {name: value for name, value in values.items() if value not in {None, ()}}
        return {**known, "state": self.state.value, **({"offered": list(self.offered)} if self.offered else {})}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Session:
        """Raises TypeError and ValueError on what is no session."""
        read = {**values, "state": State(values["state"]), "offered": tuple(values.get("offered", ()))}
        return cls(**read)


def concerns(exchange: Exchange) -> bool:
    """Whether an exchange is one of SASL's."""
    return exchange.protocol is None and (exchange.token or exchange.api_key in _API_KEYS)


def follow(before: Session | None, exchange: Exchange, source: Source, definitions: Definitions) -> Session:
    """The session after an exchange that is complete. Never raises on bad bytes."""
    session = before or Session()
    request, response = _bytes(exchange.request, source), _bytes(exchange.response, source)
    if exchange.token:
        asked_token = None if request is None else read(request[4:])
        answer_token = None if response is None else read(response[4:])
        if exchange.request is not None and exchange.response is None:
            return _asked(session, asked_token)
        return _answered(_asked(session, asked_token), exchange.response, answer_token)
    key, version = exchange.api_key, exchange.api_version
    asked = None if request is None else decode_request(request, definitions).body
    answer = None
    if response is not None and key is not None and version is not None:
        answer = decode_response(response, key, version, definitions).body
    if key == SASL_HANDSHAKE:
        return _chosen(session, asked, answer)
    session = _asked(session, None if asked is None else read(asked.get("authBytes") or b""))
    if answer is None:
        return session
    code = answer.get("errorCode", 0)
    if code:
        message = answer.get("errorMessage")
        return replace(session, state=State.FAILED, error=errors.name(code), message=message)
    lifetime = answer.get("sessionLifetimeMs")
    return _answered(session, exchange.response, read(answer.get("authBytes") or b""), lifetime)


def _chosen(session: Session, asked: Mapping[str, Any] | None, answer: Mapping[str, Any] | None) -> Session:
    """After a SaslHandshake, which begins everything anew; how often the client was let in stays."""
    mechanism = None if asked is None else asked.get("mechanism")
    offered = () if answer is None else tuple(answer.get("mechanisms") or ())[:MOST_OFFERED]
    new = Session(State.AUTHENTICATING, mechanism, offered, authentications=session.authentications)
    code = 0 if answer is None else answer.get("errorCode", 0)
    return replace(new, state=State.REFUSED, error=errors.name(code)) if code else new


def _asked(session: Session, token: Token | None) -> Session:
    """After a message of the client."""
    if token is None or session.state is State.FAILED:
        return session
    state = State.AUTHENTICATING if session.state is State.CHOOSING else session.state
    named, principal = session.mechanism or token.mechanism, token.principal or session.principal
    return replace(session, state=state, mechanism=named, principal=principal)


def _answered(session: Session, frame: Frame | None, token: Token | None, lifetime: int | None = None) -> Session:
    """After an answer without an error code. Of a mechanism that cannot be read the first one counts."""
    if token is not None and token.refused is not None:
        return replace(session, state=State.FAILED, error=token.refused)
    goes_on = _talks(session) if token is None else token.step not in _LAST_STEPS
    if goes_on or frame is None or session.state is State.FAILED:
        return session
    more = session.state is not State.AUTHENTICATED
    return replace(
        session,
        state=State.AUTHENTICATED,
        authentications=session.authentications + more,
        since=frame.time,
        lifetime_ms=lifetime,
    )


def _talks(session: Session) -> bool:
    """Whether the mechanism's last message is never empty."""
    return (session.mechanism or "").startswith("SCRAM")


def _bytes(frame: Frame | None, source: Source) -> bytes | None:
    """A frame's bytes, None where they are not all there."""
    if frame is None or frame.missing:
        return None
    data = bytes(frame.data(source))
    return data if len(data) == frame.size + 4 else None
