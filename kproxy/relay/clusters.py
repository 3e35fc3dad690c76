"""The relays of one process: one for each cluster. They share the recorder and share or divide the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kproxy.core.connection import Budget
from kproxy.recording.recorder import Recorder
from kproxy.relay.limits import Room, Share
from kproxy.relay.server import Event, Relay, listed
from kproxy.runs.settings import Settings

SHARED = ("recorder", "connections_refused")
COUNTS = ("connections", "connections_total", "bytes_from_clients", "bytes_from_brokers", "held_bytes")
GROUPS = ("responses", "tls")
TABLES = ("brokers", "controllers", "warnings")
"""Keys of a relay's status, by how `Relays.status` combines them: taken once, summed, summed by key, joined."""


class Relays:
    """All relays of a process, with the methods of one. `tell` gets each event with its cluster's name."""

    def __init__(self, settings: Settings, recorder: Recorder | None, tell: Callable[[Event], None]) -> None:
        clusters = settings.clusters()
        share = Share.of(settings.max_listeners, len(clusters))
        room = Room.of(settings.max_connections, share.files * len(clusters))
        memory = settings.memory_max // len(clusters)

        def teller(name: str) -> Callable[[Event], None]:
            return lambda event: tell({**event, "cluster": name} if name else event)

        self.all = [Relay(one, recorder, teller(one.name), Budget(memory), room, share) for one in clusters]
        self.first = self.all[0]

    @property
    def bootstrap(self) -> dict[str, str]:
        """Bootstrap servers to paste into a client, by cluster name ("" if it is the only one)."""
        return {relay.settings.name: relay.bootstrap for relay in self.all}

    async def check(self) -> None:
        await asyncio.gather(*(relay.check() for relay in self.all))

    def reload(self, name: str | None) -> list[str]:
        """Loads the actor of this name again, or all if None; returns their names. Raises LoadError, LookupError."""
        return list(dict.fromkeys(one for relay in self.all for one in relay.reload(name)))

    async def drain(self) -> None:
        await asyncio.gather(*(relay.drain() for relay in self.all))

    def close(self) -> None:
        for relay in self.all:
            relay.close()

    def brokers(self) -> Event:
        """The table of brokers in the status."""
        if len(self.all) == 1:
            return listed(self.first.book.nodes)
        return {
            f"{relay.settings.name}/{key}": value
            for relay in self.all
            for key, value in listed(relay.book.nodes).items()
        }

    def status(self) -> Event:
        """The status of a single relay. For several: sums, tables with keys "cluster/name", and each relay's own."""
        if len(self.all) == 1:
            return self.first.status()
        each = {relay.settings.name: relay.status() for relay in self.all}
        shared = self.first.status()
        return {
            **{key: shared[key] for key in SHARED},
            **{key: sum(status[key] for status in each.values()) for key in COUNTS},
            **{
                group: {key: sum(one[group][key] for one in each.values()) for key in shared[group]} for group in GROUPS
            },
            **{
                table: {f"{name}/{key}": value for name, status in each.items() for key, value in status[table].items()}
                for table in TABLES
            },
            "clusters": each,
        }
