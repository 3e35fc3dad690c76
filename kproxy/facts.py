"""What the recording says of a connection beside its bytes: lines for the comment of its first packet."""

from __future__ import annotations

from typing import Any, Protocol

from kproxy.settings import shown


class Side(Protocol):
    """One of the two connections of a link; `peer` is the other end's (host, port)."""

    transport: Any
    peer: tuple[str, int] | None


def connection_facts(client: Side, broker: Side | None, target: tuple[str, int], node_id: int | None) -> list[str]:
    """How client and broker come together; `broker` is None where it did not accept.

    `target` is what was dialled, `node_id` the broker whose listener the client used, None at the bootstrap listener.
    """
    facts = []
    if client.peer is not None and client.transport is not None:
        at = client.transport.get_extra_info("sockname")
        listener = "the bootstrap listener" if node_id is None else f"the listener of broker {node_id}"
        facts.append(f"client {shown(*client.peer)} came to kproxy at {shown(*at[:2])}, {listener}")
    if broker is None or broker.transport is None or broker.peer is None:
        facts.append(f"kproxy dialled {shown(*target)}, which did not accept")
        return facts
    own = broker.transport.get_extra_info("sockname")
    dialled = "" if target == broker.peer else f" ({shown(*target)})"
    facts.append(f"kproxy came to broker {shown(*broker.peer)}{dialled} as {shown(*own[:2])}")
    return facts
