"""What the recording says of a connection beside its bytes: lines for the comment of its first packet."""

from __future__ import annotations

from typing import Any, Protocol

from kproxy.core.brokers import Node
from kproxy.settings import shown
from kproxy.tunnel import Tunnel


class Side(Protocol):
    """One of the two connections of a link; `peer` is the other end's (host, port)."""

    transport: Any
    peer: tuple[str, int] | None


def connection_facts(
    client: Side,
    broker: Side | None,
    target: tuple[str, int],
    node: Node | None,
    through: Tunnel | None = None,
    cluster: str = "",
) -> list[str]:
    """How client and broker come together; `broker` is None where it did not accept.

    `target` is what was dialled, `node` the one whose listener the client used, None at the bootstrap listener;
    `through` is the proxy on the way, `cluster` the name where there are several.
    """
    facts = []
    if client.peer is not None and client.transport is not None:
        at = client.transport.get_extra_info("sockname")
        listener = "the bootstrap listener" if node is None else f"the listener of {node.name}"
        listener += f" of cluster {cluster}" if cluster else ""
        facts.append(f"client {shown(*client.peer)} came to kproxy at {shown(*at[:2])}, {listener}")
    if broker is None or broker.transport is None or broker.peer is None:
        by = "" if through is None else f" through {through}"
        facts.append(f"kproxy dialled {shown(*target)}{by}, which did not accept")
        return facts
    own = broker.transport.get_extra_info("sockname")
    if through is not None:
        facts.append(f"kproxy came to broker {shown(*target)} through {through} as {shown(*own[:2])}")
        return facts
    dialled = "" if target == broker.peer else f" ({shown(*target)})"
    facts.append(f"kproxy came to broker {shown(*broker.peer)}{dialled} as {shown(*own[:2])}")
    return facts
