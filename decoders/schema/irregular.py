"""Exceptions to Kafka's message definitions: a table with the reason for each row, and functions that look rows up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from kproxy.decoders.schema import api_keys
from kproxy.decoders.schema.model import ALWAYS, Field, Message, Versions

UNSUPPORTED_VERSION: Final = 35

Kind = Literal[
    "request header", "response header", "no reply", "bare tokens", "v0 answer", "extra field", "error meaning"
]


@dataclass(frozen=True, slots=True)
class Irregularity:
    """One exception to the message definitions.

    `value` depends on `kind`: a header version, an error code, a value of acks, or 0 if it has no meaning.
    """

    kind: Kind
    api_key: int
    versions: Versions
    value: int
    reason: str
    name: str = ""
    """The name of the field or error that the row is about; "" if there is none."""


IRREGULARITIES: Final = (
    Irregularity(
        "request header",
        api_keys.CONTROLLED_SHUTDOWN,
        Versions(0, 0),
        0,
        "ControlledShutdown v0 predates the client id in request headers; no other request was ever sent without it.",
    ),
    Irregularity(
        "response header",
        api_keys.API_VERSIONS,
        ALWAYS,
        0,
        "A client reads this response before it knows whether the broker speaks flexible versions, so its header "
        "stays without tagged fields (KIP-511).",
    ),
    Irregularity(
        "v0 answer",
        api_keys.API_VERSIONS,
        ALWAYS,
        UNSUPPORTED_VERSION,
        "A broker that does not know the version of an ApiVersions request answers error 35 in the layout of v0, "
        "which every client can read (KIP-511).",
    ),
    Irregularity(
        "no reply",
        api_keys.PRODUCE,
        ALWAYS,
        0,
        "Produce with acks=0 has no response: the producer does not wait, and the broker closes the connection where "
        "it must report an error.",
    ),
    Irregularity(
        "bare tokens",
        api_keys.SASL_HANDSHAKE,
        Versions(0, 0),
        0,
        "After SaslHandshake v0 the SASL tokens pass with nothing but a length before them; since v1 they travel in "
        "SaslAuthenticate (KIP-152).",
    ),
    Irregularity(
        "extra field",
        api_keys.OFFSET_COMMIT,
        Versions(0, 0),
        0,
        "An early page of the protocol guide gave OffsetCommit v0 the timestamp of v1, and some clients sent it.",
        "commitTimestamp",
    ),
    Irregularity(
        "error meaning",
        api_keys.LEADER_AND_ISR,
        Versions(0, 0),
        13,
        "Brokers 0.8.1 to 0.9 answer ErrorMapping.StaleLeaderEpochCode here; NETWORK_EXCEPTION took the number in the "
        "clients, and no broker sends it.",
        "STALE_LEADER_EPOCH",
    ),
)


_ROWS: Final = {
    (kind, api_key): tuple(row for row in IRREGULARITIES if (row.kind, row.api_key) == (kind, api_key))
    for kind, api_key in {(row.kind, row.api_key) for row in IRREGULARITIES}
}


def _find(kind: Kind, api_key: int, version: int, value: int | None = None) -> Irregularity | None:
    for row in _ROWS.get((kind, api_key), ()):
        if version in row.versions and value in {None, row.value}:
            return row
    return None


def request_header_version(api_key: int, version: int) -> int | None:
    """The version of an irregular request header; None for a regular one: 2 in flexible versions, else 1."""
    row = _find("request header", api_key, version)
    return None if row is None else row.value


def response_header_version(api_key: int, version: int) -> int | None:
    """The version of an irregular response header; None for a regular one: 1 in flexible versions, else 0."""
    row = _find("response header", api_key, version)
    return None if row is None else row.value


def expects_no_reply(api_key: int, version: int, acks: object) -> bool:
    """Whether a request never gets a response; `acks` is the value of its field, None if its API has no such field."""
    row = _find("no reply", api_key, version)
    return row is not None and acks == row.value


def may_expect_no_reply(api_key: int) -> bool:
    """Whether some requests of this API never get a response, depending on their body."""
    return ("no reply", api_key) in _ROWS


def bare_tokens_follow(api_key: int, version: int) -> bool:
    """Whether SASL tokens without a Kafka header follow the response to this request."""
    return _find("bare tokens", api_key, version) is not None


def v0_answer_error(api_key: int) -> int | None:
    """The error code with which a response of this API has the layout of v0, whatever version was requested.

    None if there is no such error code.
    """
    row = _find("v0 answer", api_key, 0)
    return None if row is None else row.value


def error_meaning(api_key: int, version: int, code: int) -> str | None:
    """The name of an error code in this API and version, if the code had another meaning there than today.

    None for all other codes.
    """
    row = _find("error meaning", api_key, version, code)
    return None if row is None else row.name


def with_extra_field(message: Message, version: int) -> Message | None:
    """The layout that some clients sent by mistake for this request; None if there is none.

    It is tried if the right layout does not fit.
    """
    if message.kind != "request" or message.api_key is None:
        return None
    row = _find("extra field", message.api_key, version)
    if row is None:
        return None
    return replace(message, fields=tuple(_widen(field, row.name, version) for field in message.fields))


def _widen(field: Field, name: str, version: int) -> Field:
    if field.struct is not None:
        fields = tuple(_widen(inner, name, version) for inner in field.struct.fields)
        return replace(field, struct=replace(field.struct, fields=fields))
    if field.name == name:
        return replace(field, versions=Versions(min(version, field.versions.low), max(version, field.versions.high)))
    return field
