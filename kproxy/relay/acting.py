"""What acts on the traffic of one relay: the actors of addons, and rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.core.brokers import Node
from kproxy.core.connection import Connection
from kproxy.core.leaks import Address
from kproxy.core.shared import Shared
from kproxy.relay.warnings import Warnings
from kproxy.runs.settings import Settings, shown

if TYPE_CHECKING:
    from kproxy.addons.acting import Actors as AddonActors
    from kproxy.core.acting import Actors
    from kproxy.decoders.schema import Definitions
    from kproxy.faults.engine import Engine
    from kproxy.faults.rule import Rule


class Acting:
    """The addons and rules of the settings.

    Raises LoadError if an addon cannot be loaded, and FaultsError if a rule cannot be used.
    """

    def __init__(self, settings: Settings, shared: Shared, warnings: Warnings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._shared = shared
        self._warnings = warnings
        self._clock = clock
        self._addons = self._load_addons()
        self.engine = self._load_engine()
        """The rules that act on traffic; None if there are none."""
        self._actors = self._join()

    def _load_addons(self) -> AddonActors | None:
        if not self._settings.addons:
            return None
        from kproxy.addons import acting, loading

        classes = loading.load(self._settings.addons).actors
        return acting.table(classes, self.known(), self._warnings.warn, self._clock) if classes else None

    def _load_engine(self) -> Engine | None:
        settings = self._settings
        if not settings.faults and settings.faults_file is None and settings.control is None:
            return None
        return self._engine_of(self.faults())

    def _engine_of(self, rules: Sequence[Rule]) -> Engine:
        from kproxy.faults.engine import Engine

        warn, seed = self._warnings.warn, self._settings.fault_seed
        return Engine(rules, self.known(), warn, self._clock, seed, self._address_of)

    def _address_of(self, node_id: int) -> Address | None:
        """The broker's own address, which its cluster has announced."""
        node = self._shared.book.nodes.get(node_id)
        return None if node is None else (node.host, node.port)

    def faults(self) -> list[Rule]:
        """Reads the rules of the settings. Raises FaultsError."""
        from kproxy.faults.files import load

        path = self._settings.faults_file
        return load(self._settings.faults, None if path is None else Path(path), self.known())

    def known(self) -> Definitions:
        """The definitions by which addons and rules read frames."""
        from kproxy.captures.definitions import definitions as given_definitions

        return given_definitions(self._settings.release, self._settings.user_definitions)

    def _join(self) -> Actors | None:
        """The actors for the frames of new connections: addons, then rules; None without either."""
        there: list[Actors] = [one for one in (self._addons, self.engine) if one is not None]
        if len(there) < 2:
            return there[0] if there else None
        from kproxy.core.chain import Chain

        return Chain(there)

    def add_rules(self, rules: Sequence[Rule]) -> None:
        """Adds rules. Raises ValueError if there is one of the same name; nothing changes then."""
        if self.engine is None:
            self.engine = self._engine_of(())
            self._actors = self._join()
        self.engine.add(rules, added=True)

    def reload(self, name: str | None) -> list[str]:
        """Loads the module of the actor called `name` again, or of all actors if None; returns their names.

        Raises LoadError, and LookupError if there is no such actor.
        """
        if self._addons is None:
            raise LookupError("this proxy has no actors (--addon)")
        from kproxy.addons import loading

        names = self._addons.reload(loading.load(self._settings.addons, again=True).actors, name)
        for one in names:
            self._warnings.forget(f"actor-{one}")
        return names

    def connection(
        self, own_host: str, client: Address | None, broker: Address | None, node: Node | None, number: int
    ) -> Connection:
        """The state of a connection between `client` and `broker`.

        `own_host` is the proxy's host that the client connected to, `node` the broker of the listener, `number` that of
        the connection.
        """
        if self._actors is None:
            return Connection(self._shared, own_host)
        from kproxy.core.acting import ActedConnection
        from kproxy.core.verdict import Parties

        parties = ["?" if address is None else shown(*address) for address in (client, broker)]
        who = Parties(parties[0], parties[1], None if node is None else node.node_id, number)
        acted = ActedConnection(self._shared, own_host, self._actors, who, self._clock)
        if self.engine is not None:
            self.engine.opened(acted, who.broker)
        return acted
