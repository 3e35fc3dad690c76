"""The only list of the values that are secret.

All code that turns values into text checks here what to withhold: the JSON form, the tree, and raw frames.
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
"""By message: fields that are secret anywhere in the message.

They are SASL tokens, token HMACs, SCRAM salted passwords and the keys derived from them; and the bytes of a message
inside an Envelope, which may hold any of these.
"""

BY_FLAG: Mapping[str, frozenset[str]] = {
    "DescribeConfigsResponse": frozenset({"value"}),
    "CreateTopicsResponse": frozenset({"value"}),
}
"""By message: fields that are secret if `isSensitive` in the same or the enclosing struct is true."""

BY_NAME: Mapping[str, frozenset[str]] = {
    "AlterConfigsRequest": frozenset({"value"}),
    "IncrementalAlterConfigsRequest": frozenset({"value"}),
    "CreateTopicsRequest": frozenset({"value"}),
    "ConfigRecord": frozenset({"value"}),
}
"""By message: fields that are secret if `name` in the same struct ends with one of SUFFIXES."""

FLAG = "isSensitive"
NAME = "name"
SUFFIXES = (".password", ".secret", ".key", ".jaas.config", ".keystore.certificate.chain")
"""Endings of names of configs that hold a secret. Brokers mark such configs as sensitive; requests do not."""

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
"""APIs whose raw frames are withheld because they may hold a secret.

58 is Envelope, which holds another request; 59 is FetchSnapshot, which holds the cluster's metadata.
"""

TOPICS = frozenset({"__cluster_metadata"})
"""Topics whose records may hold a secret; records of these topics that cannot be decoded are withheld as a whole."""

RECORDS_API_KEYS = frozenset({api_keys.FETCH})
"""APIs whose responses may carry records of TOPICS: Fetch. FetchSnapshot is in API_KEYS."""

SASL_SHOWN = frozenset(
    {
        "authzid", "username", "tokenauth", "mandatoryExtension", "channelBinding", "iterations", "error",
        "status", "scope", "openid-configuration",
    }
)  # fmt: skip
"""Parts of SASL messages that are not secret; all other parts may help to log in or to guess passwords."""

SASL_EXTENSIONS = "extensions."
"""Beginning of the names of OAUTHBEARER extensions, which are not secret."""

CLAIMS = ("iss", "sub", "aud", "azp", "client_id", "scope", "scp", "iat", "nbf", "exp")
"""Claims of a JWT that are not secret, in display order: without the signature they are useless for a login."""

_NAMES = (*(name.encode() for name in TOPICS), *(one for one, name in RESERVED.items() if name in TOPICS))
"""The names and topic ids of TOPICS, as bytes in responses."""


def names_topic(data: Buffer) -> bool:
    """Whether the bytes of a frame contain the name or topic id of one of TOPICS."""
    whole = bytes(data)
    return any(name in whole for name in _NAMES)


def in_frame(api_key: int | None, data: Buffer, *, response: bool) -> bool:
    """Whether a frame that cannot be decoded to its last byte may hold a secret."""
    return api_key in API_KEYS or (response and api_key in RECORDS_API_KEYS and names_topic(data))


def is_secret_config(name: Any) -> bool:
    return isinstance(name, str) and name.lower().endswith(SUFFIXES)


def redacted(value: Any) -> Any:
    """The placeholder for a secret, with the secret's size (for text in bytes of UTF-8); null stays null."""
    if value is None:
        return None
    size = len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else len(value)
    return {"redacted": True, "sizeInBytes": size}


def in_record(message: Message, values: Mapping[str, Any]) -> bool:
    """Whether a key or value of an internal topic's record holds a secret, given its decoded values."""
    if message.name in BY_NAME:
        return is_secret_config(values.get(NAME))
    return message.name in ALWAYS


def in_token(part: str) -> bool:
    """Whether a part of a SASL message with this name is secret (`decoders.sasl.tokens`)."""
    return part not in SASL_SHOWN and not part.startswith(SASL_EXTENSIONS)
