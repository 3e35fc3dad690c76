"""Splits the messages of SASL mechanisms into parts, some of which are secret.

PLAIN (RFC 4616), SCRAM (RFC 5802, with Kafka's extension "tokenauth" of KIP-48) and OAUTHBEARER (RFC 7628, with the
extensions of KIP-342) are decoded; GSSAPI is only recognised. The mechanism is inferred from the message's form,
because a capture may lack the handshake that named it. A message of any other form is not decoded. `decoders.secrets`
defines which parts are secret; unknown attributes of SCRAM are secret.
"""

from __future__ import annotations

import json
import math
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kproxy.decoders import secrets
from kproxy.decoders.primitives import Buffer

PLAIN: Final = "PLAIN"
SCRAM: Final = "SCRAM"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"

LONGEST: Final = 1 << 18
"""Maximum size in bytes of a token that is decoded; brokers accept 512 KiB from unauthenticated clients."""
MOST_PARTS: Final = 100

_SCRAM_NAMES: Final = {
    "a": "authzid",
    "n": "username",
    "m": "mandatoryExtension",
    "r": "nonce",
    "c": "channelBinding",
    "s": "salt",
    "i": "iterations",
    "p": "proof",
    "v": "serverSignature",
    "e": "error",
    "tokenauth": "tokenauth",
}
_SCRAM_STEPS: Final = (
    ("nr", "client-first"),
    ("rsi", "server-first"),
    ("crp", "client-final"),
    ("v", "server-final"),
    ("e", "server-final"),
)
"""(letters of the attributes of a SCRAM message in order, name of the message); optional attributes are not listed."""
_ATTRIBUTE: Final = re.compile(r"([A-Za-z]\w*)=([^,\0]*)")
_GS2_HEADER: Final = re.compile(r"(?:n|y|p=[\w.-]+),(?:a=([^,\0\1]*))?,")
_BEARER: Final = re.compile(r"bearer +", re.IGNORECASE)
_SPNEGO_OR_KERBEROS: Final = 0x60
"""Value of the first byte of a GSS-API token (RFC 2743, 3.1)."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a SASL message: its bytes [start, end), and its value, which stays bytes if it is secret."""

    name: str
    start: int
    end: int
    value: Any
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Token:
    """A message of a SASL mechanism; `step` is the mechanism's name for it, `claims` are the claims of a JWT in the
    message.
    """

    mechanism: str
    step: str
    parts: tuple[Part, ...] = ()
    claims: Mapping[str, Any] | None = None

    def get(self, name: str) -> Any:
        return next((part.value for part in self.parts if part.name == name), None)

    @property
    def principal(self) -> str | None:
        """The name under which the client authenticates; None if the message holds none."""
        claimed = None if self.claims is None else self.claims.get("sub")
        name = self.get("authzid") or self.get("username") or claimed
        return name if isinstance(name, str) else None

    @property
    def refused(self) -> str | None:
        """The broker's reason for refusing the client; None if the message is not a refusal."""
        refused = self.get({"server-final": "error", "error": "status"}.get(self.step, ""))
        return None if refused is None else str(refused)


def read(data: Buffer) -> Token | None:
    """Decode a token; None if it has the form of no known mechanism or is longer than LONGEST. Never raises."""
    raw = bytes(data[: LONGEST + 1])
    if not raw or len(raw) > LONGEST:
        return None
    if raw[0] == _SPNEGO_OR_KERBEROS:
        return Token(GSSAPI, "token")
    if raw == b"\1":
        return Token(OAUTHBEARER, "client-final")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return _plain(text) or _oauthbearer(text) or _refusal(text) or _scram(text)


def masked(data: Buffer) -> bytes:
    """The token with "*" in place of each secret byte; if it cannot be decoded, in place of all bytes."""
    token = read(data)
    if token is None or token.mechanism == GSSAPI:
        return b"*" * len(data)
    out = bytearray(data)
    for part in token.parts:
        if part.secret:
            out[part.start : part.end] = b"*" * (part.end - part.start)
    return bytes(out)


def _part(name: str, start: int, end: int, value: Any) -> Part:
    secret = secrets.in_token(name)
    return Part(name, start, end, value.encode() if secret else value, secret)


def _plain(text: str) -> Token | None:
    """Decode a token of PLAIN: [authzid] NUL username NUL password. None if the text has another form."""
    pieces = text.split("\0")
    if len(pieces) != 3 or not pieces[1] or not (pieces[0] + pieces[1]).isprintable():
        return None
    parts = []
    at = 0
    for name, piece in zip(("authzid", "username", "password"), pieces, strict=True):
        end = at + _size(piece)
        if piece:
            parts.append(_part(name, at, end, piece))
        at = end + 1
    return Token(PLAIN, "client-first", tuple(parts))


def _scram(text: str) -> Token | None:
    """Decode a message of SCRAM: attributes "x=value" separated by commas. None if the text has another form.

    The client's first message has a header before the attributes.
    """
    header = _GS2_HEADER.match(text)
    parts = []
    at, rest = 0, text
    if header is not None:
        if header[1]:
            start = _size(text[: header.start(1)])
            parts.append(_part("authzid", start, start + _size(header[1]), _unescaped(header[1])))
        at, rest = _size(header[0]), text[header.end() :]
    letters = []
    for piece in rest.split(",", MOST_PARTS):
        found = _ATTRIBUTE.fullmatch(piece)
        if found is None:
            return None
        letter, value = found[1], found[2]
        start = at + _size(letter) + 1
        at += _size(piece) + 1
        letters.append(letter)
        name = _SCRAM_NAMES.get(letter, f"attributes.{letter}")
        parts.append(_part(name, start, at - 1, _scram_value(letter, value)))
    known = [letter for letter in letters if letter in _SCRAM_NAMES and letter not in {"m", "tokenauth"}]
    step = next((name for needed, name in _SCRAM_STEPS if "".join(known) == needed), None)
    if step is None or (step == "client-first") != (header is not None):
        return None
    return Token(SCRAM, step, tuple(parts))


def _scram_value(letter: str, value: str) -> Any:
    if letter == "i" and value.isascii() and value.isdecimal() and len(value) <= 10:
        return int(value)
    return _unescaped(value) if letter in {"a", "n"} else value


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _oauthbearer(text: str) -> Token | None:
    """Decode a message of OAUTHBEARER. None if the text has another form.

    A message is a header as in SCRAM, then "key=value" pairs separated by bytes 0x01; "auth" holds the bearer token.
    """
    header = _GS2_HEADER.match(text)
    if header is None or text[header.end() : header.end() + 1] != "\1" or not text.endswith("\1\1"):
        return None
    parts = []
    claims = None
    if header[1]:
        start = _size(text[: header.start(1)])
        parts.append(_part("authzid", start, start + _size(header[1]), _unescaped(header[1])))
    at = _size(header[0]) + 1
    for pair in text[header.end() + 1 : -2].split("\1", MOST_PARTS):
        key, equals, value = pair.partition("=")
        if not equals or not key.isprintable():
            return None
        start = at + _size(key) + 1
        at += _size(pair) + 1
        if key == "auth":
            bearer = _BEARER.match(value)
            token = value[bearer.end() :] if bearer is not None else value
            start += _size(value) - _size(token)
            claims = _claims(token)
            parts.append(_part("token", start, at - 1, token))
        else:
            parts.append(_part(f"{secrets.SASL_EXTENSIONS}{key}", start, at - 1, value))
    return Token(OAUTHBEARER, "client-first", tuple(parts), claims)


def _refusal(text: str) -> Token | None:
    """Decode the JSON with which a broker refuses a token (RFC 7628, 3.2.2). None if the text has another form."""
    found = _object(text) if text[:1] == "{" else None
    if found is None or not isinstance(found.get("status"), str):
        return None
    size = _size(text)
    names = ("status", "scope", "openid-configuration")
    parts = tuple(_part(name, 0, size, found[name]) for name in names if _plain_value(found.get(name)))
    return Token(OAUTHBEARER, "error", parts)


def _claims(token: str) -> dict[str, Any] | None:
    """The claims of a JWT in compact form that may be shown; None if the token is not a JWT."""
    pieces = token.split(".")
    if len(pieces) != 3:
        return None
    try:
        payload = urlsafe_b64decode(pieces[1] + "=" * (-len(pieces[1]) % 4)).decode()
    except ValueError:
        return None
    found = _object(payload)
    return None if found is None else {name: found[name] for name in secrets.CLAIMS if _plain_value(found.get(name))}


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _plain_value(value: Any) -> bool:
    """Whether a value is a string or a finite number, or a list of these."""
    if isinstance(value, list):
        return len(value) <= MOST_PARTS and not any(isinstance(one, list) or not _plain_value(one) for one in value)
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _size(text: str) -> int:
    return len(text.encode())
