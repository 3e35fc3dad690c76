"""Meanings of fields about authentication, access control lists and delegation tokens."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.meanings.common import OPERATIONS
from kproxy.decoders.meanings.row import NEGATIVE, NULL, POSITIVE, Row, Texts

_ACLS: Final = "DescribeAclsRequest DescribeAclsResponse CreateAclsRequest DeleteAclsRequest DeleteAclsResponse"
_FILTERS: Final = "DescribeAclsRequest DeleteAclsRequest"
RESOURCES: Final[Texts] = {
    0: "kind of resource not known", 1: "resources of any kind", 2: "topic", 3: "group", 4: "cluster",
    5: "transactional id", 6: "delegation token", 7: "user",
}  # fmt: skip
PATTERNS: Final[Texts] = {
    0: "kind of pattern not known",
    1: "patterns of any kind, by their own text",
    2: "every pattern that covers the name",
    3: "exactly this name; * stands for all",
    4: "every name that begins with this text",
}
SCRAM: Final[Texts] = {0: "mechanism not known", 1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}

ROWS: Final = (
    Row("SaslHandshakeRequest", "mechanism", "SASL mechanism that the client wants to use."),
    Row(
        "SaslHandshakeResponse",
        "mechanisms",
        "Mechanisms that the listener offers, sent even if the requested one is among them.",
    ),
    Row(
        "SaslHandshakeRequest",
        "",
        "After version 0 the tokens pass without Kafka's header, so a broker reports errors by closing the connection.",
        versions="0",
    ),
    Row("SaslAuthenticateRequest SaslAuthenticateResponse", "authBytes", "A message of the SASL mechanism; a secret."),
    Row(
        "SaslAuthenticateResponse",
        "sessionLifetimeMs",
        "Time after which the client must authenticate again, or the broker closes the connection (KIP-368).",
        {0: "no need to authenticate again", POSITIVE: "milliseconds until the client must authenticate again"},
    ),
    Row(
        "CreateAclsRequest DescribeAclsResponse DeleteAclsResponse",
        "*.resourceType",
        "Kind of resource that the rule protects.",
        RESOURCES,
    ),
    Row(_FILTERS, "*.resourceTypeFilter", "What kinds of resources to look for.", RESOURCES),
    Row("DescribeAclsResponse DeleteAclsResponse", "*.patternType", "How the rule's name matches resources.", PATTERNS),
    Row("CreateAclsRequest", "*.resourcePatternType", "How the new rule's name is to match resources.", PATTERNS),
    Row(_FILTERS, "*.patternTypeFilter", "Which kinds of name patterns to look for.", PATTERNS),
    Row(_FILTERS, "*.resourceNameFilter", "The name looked for.", {NULL: "resources of any name"}),
    Row(_FILTERS, "*.principalFilter", "Principal whose rules to look for.", {NULL: "rules for anybody"}),
    Row(_FILTERS, "*.hostFilter", "Client address whose rules to look for.", {NULL: "rules for any address"}),
    Row(_ACLS, "*.operation", "Operation that the rule allows or denies.", {0: "operation not known", **OPERATIONS}),
    Row(
        _ACLS,
        "*.permissionType",
        "Whether the rule allows or denies; a denial wins.",
        {0: "not known whether the rule allows or denies", 1: "either", 2: "denies", 3: "allows"},
    ),
    Row(
        "DescribeAclsResponse CreateAclsRequest DeleteAclsResponse",
        "*.host",
        "Client address that the rule is for.",
        {"*": "any address"},
    ),
    Row(
        "CreateDelegationTokenRequest",
        "maxLifetimeMs",
        "Maximum lifetime of the token, up to which it can be renewed.",
        {-1: "as long as the broker allows (delegation.token.max.lifetime.ms)"},
    ),
    Row(
        "CreateDelegationTokenRequest",
        "ownerPrincipalName",
        "Owner of the new token.",
        {NULL: "the client that asks becomes the owner"},
    ),
    Row(
        "RenewDelegationTokenRequest",
        "renewPeriodMs",
        "For how long the token is renewed.",
        {NEGATIVE: "for the broker's own period (delegation.token.expiry.time.ms)"},
    ),
    Row(
        "ExpireDelegationTokenRequest",
        "expiryTimePeriodMs",
        "When the token is to expire.",
        {NEGATIVE: "the token expires at once"},
    ),
    Row(
        "DescribeDelegationTokenRequest",
        "owners",
        "Owners whose tokens to describe.",
        {NULL: "all tokens that the client may see"},
    ),
    Row(
        "AlterUserScramCredentialsRequest DescribeUserScramCredentialsResponse",
        "*.mechanism",
        "Hash of the SCRAM mechanism that the credential is for.",
        SCRAM,
    ),
    Row(
        "AlterUserScramCredentialsRequest DescribeUserScramCredentialsResponse",
        "*.iterations",
        "Number of hash iterations; at least 4096.",
    ),
)
