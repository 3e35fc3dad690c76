"""Decodes the metadata and assignments of group members, which the coordinator passes on as opaque bytes.

Their structure depends on the group's protocol type ("consumer", "connect"); the structure of a consumer's user data
depends on the name of its assignor.
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
    """The content of the bytes: a member's subscription (its metadata), or the assignment that the leader gives it."""

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
"""Structure of the bytes by (protocol type, kind).

Source: ConsumerProtocol, ConnectProtocol, IncrementalCooperativeConnectProtocol.
"""

USER_DATA: Final[Mapping[tuple[str, Kind], Structure]] = {
    ("stream", Kind.SUBSCRIPTION): Structure("SubscriptionInfoData", "Streams subscription info"),
    ("stream", Kind.ASSIGNMENT): Structure("AssignmentInfo", "Streams assignment info"),
}
"""Structure of a consumer's user data by (assignor's name, kind); the assignor's name is the protocol name.

Source: Kafka Streams' StreamsPartitionAssignor.
"""

PROTOCOL_NAMES: Final = ("protocolName", "protocolData", "protocol", "name")
"""Names of the fields that hold the protocol name, in the order in which they are tried.

It is "protocolData" in DescribeGroups, "protocol" in GroupMetadataValue, "name" in the protocols of a JoinGroup
request.
"""


def inside(protocol_type: str | None, kind: Kind, data: Buffer) -> Structured | None:
    """A member's decoded metadata or assignment in a group of this protocol type; None if the type is unknown.

    With `protocol_type` None, the structure is guessed: the one that fits to the last byte, if exactly one does.
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
    """A Reader of a member's metadata or assignment; `always` is the protocol type if the message implies one."""

    def of(data: Buffer, scope: Scope) -> Structured | None:
        protocol_type = always or scope.text("protocolType")
        group = scope.text("groupId")
        if protocol_type is None and group is not None:
            protocol_type = scope.view.knowledge.protocol_type(group)
        return inside(protocol_type, kind, data)

    return of


def user_data(kind: Kind) -> Reader:
    """A Reader of the user data that an assignor adds to a consumer's subscription or assignment."""

    def of(data: Buffer, scope: Scope) -> Structured | None:
        protocol = scope.text(*PROTOCOL_NAMES)
        group = scope.text("groupId")
        if protocol is None and group is not None:
            protocol = scope.view.knowledge.protocol(group)
        structure = USER_DATA.get((protocol or "", kind))
        return None if structure is None else read(structure, data)

    return of


def connect_assignment(data: Buffer, scope: Scope) -> Structured:
    """Decodes the current assignment in the state of a Connect worker."""
    del scope
    return read(CONNECT_ASSIGNMENT, data)
