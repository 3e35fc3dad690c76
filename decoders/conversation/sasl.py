"""Updates a connection's `Session` with each of its SASL exchanges.

This happens while conversations are built, so that live views, exports and indexes agree. It decodes bodies, but a
connection has only a few SASL exchanges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kproxy.decoders.exchange import Exchange, Frame
from kproxy.decoders.message import decode_request, decode_response
from kproxy.decoders.sasl.session import Session, State
from kproxy.decoders.sasl.tokens import Token, read
from kproxy.decoders.schema import errors
from kproxy.decoders.schema.api_keys import SASL_AUTHENTICATE, SASL_HANDSHAKE
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.stream import Source

_API_KEYS: Final = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE})
MOST_OFFERED: Final = 100
_LAST_STEPS: Final = frozenset({"server-final", "token"})
"""Steps whose token can be the last of a login: SCRAM's server signature, or any token of GSSAPI."""


def concerns(exchange: Exchange) -> bool:
    """Whether an exchange belongs to SASL."""
    return exchange.protocol is None and (exchange.token or exchange.api_key in _API_KEYS)


def follow(before: Session | None, exchange: Exchange, source: Source, definitions: Definitions) -> Session:
    """The session after `exchange`, given the session `before` it. Never raises on bad bytes."""
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
    """The session after a SaslHandshake: a new one that keeps the count of authentications."""
    mechanism = None if asked is None else asked.get("mechanism")
    offered = () if answer is None else tuple(answer.get("mechanisms") or ())[:MOST_OFFERED]
    new = Session(State.AUTHENTICATING, mechanism, offered, authentications=session.authentications)
    code = 0 if answer is None else answer.get("errorCode", 0)
    return replace(new, state=State.REFUSED, error=errors.name(code)) if code else new


def _asked(session: Session, token: Token | None) -> Session:
    """The session after a token that the client sent."""
    if token is None or session.state is State.FAILED:
        return session
    state = State.AUTHENTICATING if session.state is State.CHOOSING else session.state
    named, principal = session.mechanism or token.mechanism, token.principal or session.principal
    return replace(session, state=state, mechanism=named, principal=principal)


def _answered(session: Session, frame: Frame | None, token: Token | None, lifetime: int | None = None) -> Session:
    """The session after a response of the broker that holds no error; `token` is the broker's token.

    If the mechanism's tokens cannot be read, the first such response counts as success.
    """
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
    """Whether the mechanism always ends with a non-empty token (SCRAM), so that a response whose token cannot be read
    does not count as success.
    """
    return (session.mechanism or "").startswith("SCRAM")


def _bytes(frame: Frame | None, source: Source) -> bytes | None:
    """A frame's bytes; None if any are missing."""
    if frame is None or frame.missing:
        return None
    data = bytes(frame.data(source))
    return data if len(data) == frame.length else None
