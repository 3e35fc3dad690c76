"""The relays of one process, one for each cluster. They share the recorder, and share or divide the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kproxy.core.shared import Budget
from kproxy.recording.recorder import Recorder
from kproxy.relay.limits import Room, Share
from kproxy.relay.server import Relay, listed
from kproxy.relay.warnings import Event
from kproxy.runs.settings import Settings

SHARED = ("recorder", "connections_refused")
COUNTS = ("connections", "connections_total", "bytes_from_clients", "bytes_from_brokers", "held_bytes")
GROUPS = ("responses", "tls")
TABLES = ("brokers", "controllers", "warnings")
"""Keys of a relay's status, by the way in which values of several relays are combined.

A value in SHARED is taken from one relay; values in COUNTS are summed. In GROUPS, tables of numbers are summed by key;
in TABLES, tables are joined.
"""


class Relays:
    """All relays of a process, with the methods of a single one.

    `tell` receives each event with its cluster's name added.
    """

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
        """Bootstrap servers that clients can use, by cluster name; the name is "" if there is only one cluster."""
        return {relay.settings.name: relay.bootstrap for relay in self.all}

    async def check(self) -> None:
        await asyncio.gather(*(relay.upstream.check() for relay in self.all))

    def reload(self, name: str | None) -> list[str]:
        """Loads the module of the actor called `name` again, or of all actors if None; returns their names.

        Raises LoadError, and LookupError if there is no such actor.
        """
        return list(dict.fromkeys(one for relay in self.all for one in relay.acting.reload(name)))

    async def drain(self) -> None:
        await asyncio.gather(*(relay.drain() for relay in self.all))

    def close(self) -> None:
        for relay in self.all:
            relay.close()

    def brokers(self) -> Event:
        """The brokers for the status, as tables by node id.

        With several clusters, the keys are "cluster/node id".
        """
        if len(self.all) == 1:
            return listed(self.first.book.nodes)
        return {
            f"{relay.settings.name}/{key}": value
            for relay in self.all
            for key, value in listed(relay.book.nodes).items()
        }

    def status(self) -> Event:
        """The status of the only relay, or of all relays together.

        For several relays, numbers are summed, tables have keys "cluster/key", and "clusters" holds the status of each.
        """
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
