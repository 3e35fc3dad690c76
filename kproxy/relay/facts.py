"""The lines of text about a connection that the recording holds as the comment of the connection's first packet."""

from __future__ import annotations

from typing import Any, Protocol

from kproxy.core.brokers import Node
from kproxy.relay.tunnel import Tunnel
from kproxy.runs.settings import shown


class Side(Protocol):
    """One of the two connections of a link. `peer` is the (host, port) of the client or broker at its other end."""

    transport: Any
    peer: tuple[str, int] | None


def listener_in_words(node: Node | None, cluster: str) -> str:
    """The listener of `node` in words, or the bootstrap listener for None.

    `cluster` is "" if there is only one.
    """
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
    """Lines of text on how client and broker are connected, and on which side TLS is used.

    `target` is the address that kproxy dialled, `way` names the listener that the client used ("the bootstrap
    listener"), `through` is the proxy between kproxy and the broker. If the connection to the broker failed, `broker`
    is None and `refusal` says why.
    """
    facts = []
    if client.peer is not None and client.transport is not None:
        at = client.transport.get_extra_info("sockname")
        facts.append(f"client {shown(*client.peer)} connected to kproxy at {shown(*at[:2])}, {way}")
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
    facts.append(f"kproxy connected to broker {reached} from {shown(*own[:2])}")
    sides = [None if one.transport is None else one.transport.get_extra_info("tls") for one in (client, broker)]
    if any(sides):
        ours, theirs = (side or "plaintext" for side in sides)
        facts.append(f"TLS terminated here by kproxy: client side {ours}; upstream {theirs}")
    return facts
