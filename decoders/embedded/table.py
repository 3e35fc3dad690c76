"""The table of all bytes fields whose content has a known format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kproxy.decoders.embedded import envelope, sasl, telemetry, text
from kproxy.decoders.embedded.group import Kind, connect_assignment, member, user_data
from kproxy.decoders.embedded.inside import Reader
from kproxy.decoders.schema.layout import Layout, Shape, per_version
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.schema.model import Message


@dataclass(frozen=True, slots=True)
class Row:
    """A bytes field, by its message and its `path` there, and the function that decodes its content."""

    message: str
    path: str
    read: Reader


ROWS: Final = (
    Row("JoinGroupRequest", "protocols.metadata", member(Kind.SUBSCRIPTION)),
    Row("JoinGroupResponse", "members.metadata", member(Kind.SUBSCRIPTION)),
    Row("SyncGroupRequest", "assignments.assignment", member(Kind.ASSIGNMENT)),
    Row("SyncGroupResponse", "assignment", member(Kind.ASSIGNMENT)),
    Row("DescribeGroupsResponse", "groups.members.memberMetadata", member(Kind.SUBSCRIPTION)),
    Row("DescribeGroupsResponse", "groups.members.memberAssignment", member(Kind.ASSIGNMENT)),
    Row("GroupMetadataValue", "members.subscription", member(Kind.SUBSCRIPTION)),
    Row("GroupMetadataValue", "members.assignment", member(Kind.ASSIGNMENT)),
    Row(
        "ConsumerGroupMemberMetadataValue",
        "classicMemberMetadata.supportedProtocols.metadata",
        member(Kind.SUBSCRIPTION, "consumer"),
    ),
    Row("ConsumerProtocolSubscription", "userData", user_data(Kind.SUBSCRIPTION)),
    Row("ConsumerProtocolAssignment", "userData", user_data(Kind.ASSIGNMENT)),
    Row("ConnectWorkerState", "allocation", connect_assignment),
    Row("SubscriptionInfoData", "userEndPoint", text.utf8),
    Row("SubscriptionInfoData", "clientTags.key", text.utf8),
    Row("SubscriptionInfoData", "clientTags.value", text.utf8),
    Row("EnvelopeRequest", "requestData", envelope.request),
    Row("EnvelopeRequest", "requestPrincipal", envelope.principal),
    Row("EnvelopeRequest", "clientHostAddress", text.address),
    Row("EnvelopeResponse", "responseData", envelope.response),
    Row("PushTelemetryRequest", "metrics", telemetry.metrics),
    Row("SaslAuthenticateRequest", "authBytes", sasl.token),
    Row("SaslAuthenticateResponse", "authBytes", sasl.token),
)


@dataclass(frozen=True, slots=True)
class Place:
    """A bytes field in one version: names of the structs around it, its own name, and the function that decodes it."""

    above: tuple[str, ...]
    name: str
    read: Reader


@per_version
def places(message: Message, version: int) -> tuple[Place, ...]:
    """The bytes fields in this version of a message whose content has a known format."""
    found = []
    for row in ROWS:
        if row.message == message.name:
            *above, name = row.path.split(".")
            if _has(layout_of(message, version), (*above, name)):
                found.append(Place(tuple(above), name, row.read))
    return tuple(found)


def _has(layout: Layout | None, names: tuple[str, ...]) -> bool:
    slot = None if layout is None else next((slot for slot in layout.every() if slot.name == names[0]), None)
    if slot is None:
        return False
    return slot.shape is Shape.BYTES if len(names) == 1 else _has(slot.layout, names[1:])
