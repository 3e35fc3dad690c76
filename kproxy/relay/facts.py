"""The lines about a connection in the recording: the comment of its first packet."""

from __future__ import annotations

from typing import Any, Protocol

from kproxy.core.brokers import Node
from kproxy.relay.tunnel import Tunnel
from kproxy.runs.settings import shown


class Side(Protocol):
    """One of the two connections of a link; `peer` is the (host, port) of the client or broker there."""

    transport: Any
    peer: tuple[str, int] | None


def listener_in_words(node: Node | None, cluster: str) -> str:
    """Names the listener: a node's, or the bootstrap listener if None; `cluster` is "" where there is only one."""
    which = "the bootstrap listener" if node is None else f"the listener of {node.name}"
    return f"{which} of cluster {cluster}" if cluster else which


def connection_facts(
    client: Side,
    broker: Side | None,
    target: tuple[str, int],
    way: str,
    through: Tunnel | None = None,
    refusal: str = "did not accept",
) -> list[str]:
    """Lines on how client and broker are connected, and on which side TLS is used.

    `target` is the dialled address, `way` says how the client came ("the bootstrap listener"), `through` is the proxy
    on the way to the broker. `broker` is None if it refused; `refusal` then says how.
    """
    facts = []
    if client.peer is not None and client.transport is not None:
        at = client.transport.get_extra_info("sockname")
        facts.append(f"client {shown(*client.peer)} came to kproxy at {shown(*at[:2])}, {way}")
    if broker is None or broker.transport is None or broker.peer is None:
        by = "" if through is None else f" through {through}"
        facts.append(f"kproxy dialled {shown(*target)}{by}, which {refusal}")
        return facts
    own = broker.transport.get_extra_info("sockname")
    if through is not None:
        reached = f"{shown(*target)} through {through}"
    elif target == broker.peer:
        reached = shown(*target)
    else:
        reached = f"{shown(*broker.peer)} ({shown(*target)})"
    facts.append(f"kproxy came to broker {reached} as {shown(*own[:2])}")
    sides = [None if one.transport is None else one.transport.get_extra_info("tls") for one in (client, broker)]
    if any(sides):
        ours, theirs = (side or "plaintext" for side in sides)
        facts.append(f"TLS terminated here by kproxy: client side {ours}; upstream {theirs}")
    return facts
