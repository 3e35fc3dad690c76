"""Authentication, access control lists, delegation tokens."""

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
    4: "every name that begins so",
}
SCRAM: Final[Texts] = {0: "mechanism not known", 1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}

ROWS: Final = (
    Row("SaslHandshakeRequest", "mechanism", "How the client wants to authenticate."),
    Row("SaslHandshakeResponse", "mechanisms", "What the listener offers, told even where the wish is granted."),
    Row(
        "SaslHandshakeRequest",
        "",
        "After version 0 the tokens pass without Kafka's header, so errors cannot be told: the broker hangs up.",
        versions="0",
    ),
    Row("SaslAuthenticateRequest SaslAuthenticateResponse", "authBytes", "A token of the mechanism; a secret."),
    Row(
        "SaslAuthenticateResponse",
        "sessionLifetimeMs",
        "After this time the client must authenticate again on the connection, or is cut off (KIP-368).",
        {0: "no need to authenticate again", POSITIVE: "milliseconds until the client must authenticate again"},
    ),
    Row("CreateAclsRequest DescribeAclsResponse DeleteAclsResponse", "*.resourceType", "What is protected.", RESOURCES),
    Row(_FILTERS, "*.resourceTypeFilter", "What kinds of resources to look for.", RESOURCES),
    Row("DescribeAclsResponse DeleteAclsResponse", "*.patternType", "How the name is read.", PATTERNS),
    Row("CreateAclsRequest", "*.resourcePatternType", "How the name is to be read.", PATTERNS),
    Row(_FILTERS, "*.patternTypeFilter", "What kinds of names to look for.", PATTERNS),
    Row(_FILTERS, "*.resourceNameFilter", "The name looked for.", {NULL: "resources of any name"}),
    Row(_FILTERS, "*.principalFilter", "Whose rules to look for.", {NULL: "rules for anybody"}),
    Row(_FILTERS, "*.hostFilter", "Rules for which address.", {NULL: "rules for any address"}),
    Row(_ACLS, "*.operation", "What the rule is about.", {0: "operation not known", **OPERATIONS}),
    Row(
        _ACLS,
        "*.permissionType",
        "Whether the rule opens or shuts; what shuts wins.",
        {0: "not known whether it allows", 1: "either", 2: "denies", 3: "allows"},
    ),
    Row(
        "DescribeAclsResponse CreateAclsRequest DeleteAclsResponse",
        "*.host",
        "The address that the rule is for.",
        {"*": "any address"},
    ),
    Row(
        "CreateDelegationTokenRequest",
        "maxLifetimeMs",
        "How long the token may be renewed.",
        {-1: "as long as the broker allows (delegation.token.max.lifetime.ms)"},
    ),
    Row(
        "CreateDelegationTokenRequest",
        "ownerPrincipalName",
        "For whom the token is made.",
        {NULL: "for the one who asks"},
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
        "When the token shall end.",
        {NEGATIVE: "the token ends at once"},
    ),
    Row(
        "DescribeDelegationTokenRequest",
        "owners",
        "Whose tokens are wanted.",
        {NULL: "all tokens that the client may see"},
    ),
    Row(
        "AlterUserScramCredentialsRequest DescribeUserScramCredentialsResponse",
        "*.mechanism",
        "Which hash the credential is for.",
        SCRAM,
    ),
    Row(
        "AlterUserScramCredentialsRequest DescribeUserScramCredentialsResponse",
        "*.iterations",
        "How often the hash is repeated; at least 4096.",
    ),
)
