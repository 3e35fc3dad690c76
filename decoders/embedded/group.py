"""What members of a group tell each other through the coordinator, which does not look inside.

What it is follows from the group's protocol type ("consumer", "connect"), and of a consumer's user data from the name
of its assignor.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from kproxy.decoders.embedded.inside import Reader
from kproxy.decoders.embedded.scope import Scope
from kproxy.decoders.embedded.structure import Structure, Structured, read
from kproxy.decoders.primitives import Buffer


class Kind(StrEnum):
    """What a member says of itself, and what the leader answers it."""

    SUBSCRIPTION = "subscription"
    ASSIGNMENT = "assignment"


CONNECT_ASSIGNMENT: Final = Structure("ConnectAssignment", "Connect assignment")

PROTOCOLS: Final[Mapping[tuple[str, Kind], Structure]] = {
    ("consumer", Kind.SUBSCRIPTION): Structure(
        "ConsumerProtocolSubscription", "consumer protocol subscription", newer=True
    ),
    ("consumer", Kind.ASSIGNMENT): Structure("ConsumerProtocolAssignment", "consumer protocol assignment", newer=True),
    ("connect", Kind.SUBSCRIPTION): Structure("ConnectWorkerState", "Connect worker state"),
    ("connect", Kind.ASSIGNMENT): CONNECT_ASSIGNMENT,
}
"""By protocol type. Source: ConsumerProtocol, ConnectProtocol, IncrementalCooperativeConnectProtocol."""

USER_DATA: Final[Mapping[tuple[str, Kind], Structure]] = {
    ("stream", Kind.SUBSCRIPTION): Structure("SubscriptionInfoData", "Streams subscription info"),
    ("stream", Kind.ASSIGNMENT): Structure("AssignmentInfo", "Streams assignment info"),
}
"""By name of the assignor, which is the protocol's. Source: Kafka Streams' StreamsPartitionAssignor."""

PROTOCOL_NAMES: Final = ("protocolName", "protocolData", "protocol", "name")
"""What messages call the protocol: in DescribeGroups "protocolData", in GroupMetadataValue "protocol", and "name" among
those of a JoinGroup request."""


def inside(protocol_type: str | None, kind: Kind, data: Buffer) -> Structured | None:
    """What a member's metadata or assignment in a group of this protocol type holds; None where nobody knows.

    Without a protocol type it is the only structure that fits to the last byte, as a guess.
    """
    if protocol_type:
        structure = PROTOCOLS.get((protocol_type, kind))
        return None if structure is None else read(structure, data)
    tried = [read(structure, data) for (_, of), structure in PROTOCOLS.items() if of is kind]
    fitting = [one for one in tried if one.whole and not one.wrong]
    if len(fitting) != 1:
        return None
    fitting[0].guessed = True
    return fitting[0]


def member(kind: Kind, always: str | None = None) -> Reader:
    """Reads what the scope's message says of a member of a group; `always` is the protocol type of such members."""

    def of(data: Buffer, scope: Scope) -> Structured | None:
        protocol_type = always or scope.text("protocolType")
        group = scope.text("groupId")
        if protocol_type is None and group is not None:
            protocol_type = scope.view.knowledge.protocol_type(group)
        return inside(protocol_type, kind, data)

    return of


def user_data(kind: Kind) -> Reader:
    """Reads what an assignor adds to a consumer's subscription or assignment."""

    def of(data: Buffer, scope: Scope) -> Structured | None:
        protocol = scope.text(*PROTOCOL_NAMES)
        group = scope.text("groupId")
        if protocol is None and group is not None:
            protocol = scope.view.knowledge.protocol(group)
        structure = USER_DATA.get((protocol or "", kind))
        return None if structure is None else read(structure, data)

    return of


def connect_assignment(data: Buffer, scope: Scope) -> Structured:
    """The assignment that a Connect worker holds and tells with its state."""
    del scope
    return read(CONNECT_ASSIGNMENT, data)
