"""Which values are secret: the one place that says so.

What withholds a value where it becomes text asks here: the JSON form, the tree, and whoever prints raw frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.decoders.knowledge import RESERVED
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.schema import api_keys
from kproxy.decoders.schema.model import Message

ALWAYS: Mapping[str, frozenset[str]] = {
    "SaslAuthenticateRequest": frozenset({"authBytes"}),
    "SaslAuthenticateResponse": frozenset({"authBytes"}),
    "CreateDelegationTokenResponse": frozenset({"hmac"}),
    "RenewDelegationTokenRequest": frozenset({"hmac"}),
    "ExpireDelegationTokenRequest": frozenset({"hmac"}),
    "DescribeDelegationTokenResponse": frozenset({"hmac"}),
    "AlterUserScramCredentialsRequest": frozenset({"saltedPassword"}),
    "EnvelopeRequest": frozenset({"requestData"}),
    "EnvelopeResponse": frozenset({"responseData"}),
    "UserScramCredentialRecord": frozenset({"salt", "storedKey", "serverKey"}),
}
"""Fields that are secret wherever they stand in a message: SASL tokens, token HMACs, SCRAM salted passwords and what is
kept of them; and the bytes of a message inside an Envelope, which may be any of these."""

BY_FLAG: Mapping[str, frozenset[str]] = {
    "DescribeConfigsResponse": frozenset({"value"}),
    "CreateTopicsResponse": frozenset({"value"}),
}
"""Fields that are secret where `isSensitive` beside them, or in the struct around theirs, is true."""

BY_NAME: Mapping[str, frozenset[str]] = {
    "AlterConfigsRequest": frozenset({"value"}),
    "IncrementalAlterConfigsRequest": frozenset({"value"}),
    "CreateTopicsRequest": frozenset({"value"}),
    "ConfigRecord": frozenset({"value"}),
}
"""Fields that are secret where `name` beside them ends as SUFFIXES says."""

FLAG = "isSensitive"
NAME = "name"
SUFFIXES = (".password", ".secret", ".key", ".jaas.config", ".keystore.certificate.chain")
"""Ends of the names of configs that hold a secret; a broker marks these itself, a request cannot."""

API_KEYS = frozenset(
    {
        api_keys.CREATE_TOPICS,
        api_keys.DESCRIBE_CONFIGS,
        api_keys.ALTER_CONFIGS,
        api_keys.SASL_AUTHENTICATE,
        api_keys.CREATE_DELEGATION_TOKEN,
        api_keys.RENEW_DELEGATION_TOKEN,
        api_keys.EXPIRE_DELEGATION_TOKEN,
        api_keys.DESCRIBE_DELEGATION_TOKEN,
        api_keys.INCREMENTAL_ALTER_CONFIGS,
        api_keys.ALTER_USER_SCRAM_CREDENTIALS,
        api_keys.ENVELOPE,
        api_keys.FETCH_SNAPSHOT,
    }
)
"""APIs whose frames can hold a secret, so that their bytes are one too (58: an Envelope holds another request; 59: a
snapshot holds the cluster's metadata)."""

TOPICS = frozenset({"__cluster_metadata"})
"""Topics whose records can hold a secret, so that the bytes of one that cannot be read are one too."""

RECORDS_API_KEYS = frozenset({api_keys.FETCH})
"""APIs whose responses can carry records of these topics (Fetch; what holds a snapshot is one of API_KEYS)."""

SASL_SHOWN = frozenset(
    {
        "authzid", "username", "tokenauth", "mandatoryExtension", "channelBinding", "iterations", "error",
        "status", "scope", "openid-configuration",
    }
)  # fmt: skip
"""Parts of SASL's messages that are none; all others let somebody log in or try passwords, or may do so."""

SASL_EXTENSIONS = "extensions."
"""What the names of OAUTHBEARER's extensions begin with, which are none either."""

CLAIMS = ("iss", "sub", "aud", "azp", "client_id", "scope", "scp", "iat", "nbf", "exp")
"""Claims of a JWT that are none, in the order in which they are shown: without its signature they let nobody in."""

_NAMES = (*(name.encode() for name in TOPICS), *(one for one, name in RESERVED.items() if name in TOPICS))
"""What a response names these topics by: their names and their ids."""


def names_topic(data: Buffer) -> bool:
    """Whether one of TOPICS is named anywhere in the bytes of a frame."""
    whole = bytes(data)
    return any(name in whole for name in _NAMES)


def in_frame(api_key: int | None, data: Buffer, *, response: bool) -> bool:
    """Whether the bytes of a frame that cannot be read, or not to its end, can hold a secret."""
    return api_key in API_KEYS or (response and api_key in RECORDS_API_KEYS and names_topic(data))


def is_secret_config(name: Any) -> bool:
    return isinstance(name, str) and name.lower().endswith(SUFFIXES)


def redacted(value: Any) -> Any:
    """What stands for a secret; null stays null. Text counts in bytes of UTF-8."""
    if value is None:
        return None
    size = len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else len(value)
    return {"redacted": True, "sizeInBytes": size}


def in_record(message: Message, values: Mapping[str, Any]) -> bool:
    """Whether the bytes of a record of an internal topic hold a secret."""
    if message.name in BY_NAME:
        return is_secret_config(values.get(NAME))
    return message.name in ALWAYS


def in_token(part: str) -> bool:
    """Whether a part of a SASL message is one (`decoders.sasl.tokens`)."""
    return part not in SASL_SHOWN and not part.startswith(SASL_EXTENSIONS)
