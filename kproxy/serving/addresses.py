"""Puts addresses of kproxy's own in the place of the recorded brokers' addresses in a response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kproxy.core.addresses import CARRIERS, Carrier

AddressOf = Callable[[int], tuple[str, int]]
"""A function from a node id to the (host, port) at which kproxy serves this node."""


def readdressed(name: str, values: Mapping[str, Any], address_of: AddressOf) -> dict[str, Any]:
    """The values of the response message `name`, with addresses from `address_of`; empty hosts stay empty."""
    new = dict(values)
    for carrier in CARRIERS.get(name, ()):
        if not carrier.array:
            new = _entry(carrier, new, address_of)
        elif new.get(carrier.array):
            new[carrier.array] = [_entry(carrier, one, address_of) for one in new[carrier.array]]
    return new


def _entry(carrier: Carrier, entry: Mapping[str, Any], address_of: AddressOf) -> dict[str, Any]:
    node = entry.get(carrier.node_id)
    if not isinstance(node, int):
        return dict(entry)
    if carrier.listeners:
        listeners = entry.get(carrier.listeners) or ()
        return {**entry, carrier.listeners: [_here(carrier, one, node, address_of) for one in listeners]}
    return _here(carrier, entry, node, address_of)


def _here(carrier: Carrier, entry: Mapping[str, Any], node: int, address_of: AddressOf) -> dict[str, Any]:
    if not entry.get(carrier.host):
        return dict(entry)
    host, port = address_of(node)
    return {**entry, carrier.host: host, carrier.port: port}


def nodes_in(name: str, values: Mapping[str, Any]) -> set[int]:
    """The node ids for which a response names an address."""
    found: set[int] = set()

    def note(node: int) -> tuple[str, int]:
        found.add(node)
        return "", 0

    readdressed(name, values, note)
    return found
