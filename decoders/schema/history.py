"""Facts that the newest definitions do not hold: the first and last release of each API, older names, API classes.

The tables are maintained by hand; the updater (tools/schema) asks for a row if a new API has none. Sources: `ApiKeys`,
`Errors` and the message definitions of each release; for 0.8, `RequestKeys` and `ErrorMapping` of its broker.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Klass = Literal[
    "core", "group", "transaction", "admin", "security", "control", "quorum", "share", "streams", "telemetry"
]


class ApiHistory(NamedTuple):
    """The first and last release whose brokers or controllers know an API key.

    `last` is None if the newest still does.
    """

    klass: Klass
    first: str
    last: str | None = None
    older_names: tuple[str, ...] = ()


APIS: Final[dict[int, ApiHistory]] = {
    0: ApiHistory("core", "0.8.0", older_names=("Send",)),
    1: ApiHistory("core", "0.8.0"),
    2: ApiHistory("core", "0.8.0", older_names=("Offset", "Offsets", "ListOffset")),
    3: ApiHistory("core", "0.8.0", older_names=("TopicMetadata",)),
    4: ApiHistory("control", "0.8.0", "3.9"),
    5: ApiHistory("control", "0.8.0", "3.9"),
    6: ApiHistory("control", "0.8.0", "3.9"),
    7: ApiHistory("control", "0.8.0", "3.9"),
    8: ApiHistory("group", "0.8.1"),
    9: ApiHistory("group", "0.8.1"),
    10: ApiHistory("group", "0.8.2", older_names=("ConsumerMetadata", "GroupCoordinator")),
    11: ApiHistory("group", "0.9.0"),
    12: ApiHistory("group", "0.9.0"),
    13: ApiHistory("group", "0.9.0"),
    14: ApiHistory("group", "0.9.0"),
    15: ApiHistory("group", "0.9.0"),
    16: ApiHistory("group", "0.9.0"),
    17: ApiHistory("security", "0.10.0"),
    18: ApiHistory("core", "0.10.0"),
    19: ApiHistory("admin", "0.10.1"),
    20: ApiHistory("admin", "0.10.1"),
    21: ApiHistory("admin", "0.11.0"),
    22: ApiHistory("transaction", "0.11.0"),
    23: ApiHistory("core", "0.11.0", older_names=("OffsetsForLeaderEpoch",)),
    24: ApiHistory("transaction", "0.11.0"),
    25: ApiHistory("transaction", "0.11.0"),
    26: ApiHistory("transaction", "0.11.0"),
    27: ApiHistory("transaction", "0.11.0"),
    28: ApiHistory("transaction", "0.11.0"),
    29: ApiHistory("security", "0.11.0"),
    30: ApiHistory("security", "0.11.0"),
    31: ApiHistory("security", "0.11.0"),
    32: ApiHistory("admin", "0.11.0"),
    33: ApiHistory("admin", "0.11.0"),
    34: ApiHistory("admin", "1.0.0"),
    35: ApiHistory("admin", "1.0.0"),
    36: ApiHistory("security", "1.0.0"),
    37: ApiHistory("admin", "1.0.0"),
    38: ApiHistory("security", "1.1.0"),
    39: ApiHistory("security", "1.1.0"),
    40: ApiHistory("security", "1.1.0"),
    41: ApiHistory("security", "1.1.0"),
    42: ApiHistory("group", "1.1.0"),
    43: ApiHistory("admin", "2.2.0", older_names=("ElectPreferredLeaders",)),
    44: ApiHistory("admin", "2.3.0"),
    45: ApiHistory("admin", "2.4.0"),
    46: ApiHistory("admin", "2.4.0"),
    47: ApiHistory("group", "2.4.0"),
    48: ApiHistory("admin", "2.6.0"),
    49: ApiHistory("admin", "2.6.0"),
    50: ApiHistory("security", "2.7.0"),
    51: ApiHistory("security", "2.7.0"),
    52: ApiHistory("quorum", "2.7.0"),
    53: ApiHistory("quorum", "2.7.0"),
    54: ApiHistory("quorum", "2.7.0"),
    55: ApiHistory("quorum", "2.7.0"),
    56: ApiHistory("control", "2.7.0", older_names=("AlterIsr",)),
    57: ApiHistory("admin", "2.7.0"),
    58: ApiHistory("control", "2.8.0"),
    59: ApiHistory("quorum", "2.8.0"),
    60: ApiHistory("admin", "2.8.0"),
    61: ApiHistory("transaction", "2.8.0"),
    62: ApiHistory("control", "2.8.0"),
    63: ApiHistory("control", "2.8.0"),
    64: ApiHistory("admin", "2.8.0"),
    65: ApiHistory("transaction", "3.0.0"),
    66: ApiHistory("transaction", "3.0.0"),
    67: ApiHistory("control", "3.0.0"),
    68: ApiHistory("group", "3.5.0"),
    69: ApiHistory("group", "3.7.0"),
    70: ApiHistory("control", "3.7.0"),
    71: ApiHistory("telemetry", "3.7.0"),
    72: ApiHistory("telemetry", "3.7.0"),
    73: ApiHistory("control", "3.7.0"),
    74: ApiHistory("admin", "3.7.0", older_names=("ListClientMetricsResources",)),
    75: ApiHistory("core", "3.8.0"),
    76: ApiHistory("share", "3.9.0"),
    77: ApiHistory("share", "3.9.0"),
    78: ApiHistory("share", "3.9.0"),
    79: ApiHistory("share", "3.9.0"),
    80: ApiHistory("quorum", "3.9.0"),
    81: ApiHistory("quorum", "3.9.0"),
    82: ApiHistory("quorum", "3.9.0"),
    83: ApiHistory("share", "3.9.0"),
    84: ApiHistory("share", "3.9.0"),
    85: ApiHistory("share", "3.9.0"),
    86: ApiHistory("share", "3.9.0"),
    87: ApiHistory("share", "3.9.0"),
    88: ApiHistory("streams", "4.1.0"),
    89: ApiHistory("streams", "4.1.0"),
    90: ApiHistory("share", "4.1.0"),
    91: ApiHistory("share", "4.1.0"),
    92: ApiHistory("share", "4.1.0"),
    93: ApiHistory("streams", "4.4.0"),
    94: ApiHistory("control", "4.4.0"),
}

ERRORS: Final[dict[int, tuple[str, ...]]] = {
    -1: ("UNKNOWN",),
    0: ("NoError",),
    2: ("InvalidMessage",),
    4: ("InvalidMessageSize",),
    6: ("NOT_LEADER_FOR_PARTITION",),
    10: ("MessageSizeTooLarge",),
    13: ("STALE_LEADER_EPOCH",),
    14: ("OffsetsLoadInProgress", "OFFSET_LOAD_IN_PROGRESS", "GROUP_LOAD_IN_PROGRESS"),
    15: ("ConsumerCoordinatorNotAvailable", "GROUP_COORDINATOR_NOT_AVAILABLE"),
    16: ("NotCoordinatorForConsumer", "NOT_COORDINATOR_FOR_GROUP"),
    17: ("InvalidTopic",),
    18: ("MessageSetSizeTooLarge",),
    29: ("TopicAuthorization",),
    30: ("GroupAuthorization",),
    31: ("ClusterAuthorization",),
}
"""The names that an error had in earlier releases, by code; names of 0.8 lack their suffix Code."""
