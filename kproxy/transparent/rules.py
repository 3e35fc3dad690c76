"""The rules that redirect connections to the relay, as commands of iptables, ip6tables and ip; does not run them.

*redirect* rewrites the destination (nat table); connection tracking remembers the original one. It covers clients on
this machine (OUTPUT) and on others (PREROUTING). *tproxy* leaves packets unchanged and delivers them to this machine
(mangle table, a mark, and a routing table that treats every address as local); it does not cover clients on this
machine. Both redirect new connections only; connections that are open already go on unchanged.

All names contain the relay's port, so that leftovers of a relay that has died are found in the kernel's tables: a chain
KPROXY_<port>, jumps to it, and a routing rule for the mark ROUTE_BASE + port.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

Command = tuple[str, ...]

MODES = ("redirect", "tproxy")
CLIENTS = ("all", "local", "remote")
CHAIN = "KPROXY_"
OWN_MARK = 0x6B70
"""Mark on packets of relays' own connections to brokers; the rules do not redirect marked packets."""
ROUTE_BASE = 0x6B70_0000
"""The mark and the routing table of tproxy have the number ROUTE_BASE + relay's port."""
MOST_PORTS = 15
"""Maximum number of ports in one multiport match."""

FAMILIES = {4: ("iptables", ("ip", "-4")), 6: ("ip6tables", ("ip", "-6"))}
TABLES = {"redirect": "nat", "tproxy": "mangle"}


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that redirect connections of `clients` to the brokers' `ports` to one relay.

    `clients` is "local" (on this machine), "remote", or "all"; `mode` is one of MODES. `listen_port` is the relay's
    port, `families` are the IP versions 4 and 6. Raises ValueError if fields contradict each other or there are too
    many ports.
    """

    mode: str
    listen_port: int
    ports: tuple[int, ...] = (9092,)
    clients: str = "all"
    families: tuple[int, ...] = (4, 6)

    def __post_init__(self) -> None:
        if self.mode == "tproxy" and self.clients == "local":
            raise ValueError("tproxy sees no connections of this machine's own clients: use redirect for them")
        if self.listen_port in self.ports:
            raise ValueError(f"port {self.listen_port} is the relay's own: connections to it cannot be redirected")
        if not 0 < len(self.ports) <= MOST_PORTS:
            raise ValueError(f"{len(self.ports)} ports given; transparent mode redirects 1 to {MOST_PORTS}")

    @property
    def chain(self) -> str:
        return f"{CHAIN}{self.listen_port}"

    @property
    def hooks(self) -> tuple[str, ...]:
        """The built-in netfilter chains that get a jump to the relay's chain."""
        hooks = []
        if self.clients != "local":
            hooks.append("PREROUTING")
        if self.clients != "remote" and self.mode == "redirect":
            hooks.append("OUTPUT")
        return tuple(hooks)

    def install(self) -> list[Command]:
        """The commands that install the rules, in an order that never lets a packet meet only some of the rules."""
        return [command for family in self.families for command in self._install(family)]

    def release(self) -> list[Command]:
        """The commands that stop redirecting new connections; connections that were redirected go on."""
        return [undone for family in self.families for undone in _undone(self._taking(family))]

    def remove(self) -> list[Command]:
        """The commands that undo `install`, in reverse order."""
        return [undone for command in reversed(self.install()) for undone in _undone(command)]

    def _install(self, family: int) -> Iterator[Command]:
        chain, route = self.chain, _route(self.listen_port)
        if self.mode == "tproxy":
            _, ip = FAMILIES[family]
            yield (*ip, "rule", "add", "fwmark", hex(route), "lookup", str(route))
            yield (*ip, "route", "add", "local", "default", "dev", "lo", "table", str(route))
        yield (*self._table(family), "-N", chain)
        yield (*self._table(family), "-A", chain, "-m", "mark", "--mark", hex(OWN_MARK), "-j", "RETURN")
        if self.mode == "tproxy":
            ours = ("-m", "socket", "--transparent", "-j", "MARK", "--set-mark", hex(route))
            yield (*self._table(family), "-A", chain, "-p", "tcp", *self._match, *ours)
        yield self._taking(family)
        for hook in self.hooks:
            yield (*self._table(family), "-A", hook, "-p", "tcp", "-j", chain)

    def _table(self, family: int) -> Command:
        return (FAMILIES[family][0], "-w", "-t", TABLES[self.mode])

    @property
    def _match(self) -> Command:
        return ("-m", "multiport", "--dports", ",".join(map(str, self.ports)))

    def _taking(self, family: int) -> Command:
        """The command that adds the rule for new connections: it redirects them to the relay.

        The rule matches SYN packets only: when connection tracking has just begun, the nat table also sees later
        packets.
        """
        port = str(self.listen_port)
        if self.mode == "redirect":
            target: Command = ("REDIRECT", "--to-ports", port)
        else:
            target = ("TPROXY", "--on-port", port, "--tproxy-mark", hex(_route(self.listen_port)))
        return (*self._table(family), "-A", self.chain, "-p", "tcp", "--syn", *self._match, "-j", *target)


def _route(listen_port: int) -> int:
    return ROUTE_BASE + listen_port


def _undone(command: Command) -> Iterator[Command]:
    """The commands that undo a command of `Rules.install`, or one reconstructed from a listing."""
    if command[0] == "ip":
        ip, kind, rest = command[:2], command[2], command[4:]
        yield (*ip, "route", "flush", "table", command[-1]) if kind == "route" else (*ip, "rule", "del", *rest)
        return
    at = next(place for place, word in enumerate(command) if word in {"-A", "-N"})
    before, rest = command[:at], command[at + 1 :]
    if command[at] == "-A":
        yield (*before, "-D", *rest)
    else:
        yield (*before, "-F", *rest)
        yield (*before, "-X", *rest)


def text(commands: Iterable[Command]) -> str:
    """Commands as lines of a shell script."""
    return "".join(f"{shlex.join(command)}\n" for command in commands)


# --- installed rules -------------------------------------------------------------------------------------------------

LISTINGS: tuple[Command, ...] = tuple(
    command
    for tables, ip in FAMILIES.values()
    for command in (*((tables, "-w", "-t", table, "-S") for table in TABLES.values()), (*ip, "rule", "show"))
)
"""Commands whose output together shows every rule of kproxy."""

_CHAIN_LINE = re.compile(rf"-(?:N|A \S+ .*-j) {CHAIN}(\d{{1,5}})")
_ROUTE_LINE = re.compile(r"\d+:\s.*fwmark 0x([0-9a-f]+) lookup (\d+)")


def present(listings: Mapping[Command, str]) -> dict[int, list[Command]]:
    """The commands that remove installed rules, by relay port, from the output of each command in `LISTINGS`."""
    found: dict[int, list[Command]] = {}
    for listing, output in listings.items():
        for line in reversed(output.splitlines()):
            for port, installed in _installed(listing, line):
                found.setdefault(port, []).extend(undone for one in installed for undone in _undone(one))
    return found


def _installed(listing: Command, line: str) -> Iterator[tuple[int, list[Command]]]:
    """Recognises kproxy's rule in a line of a listing; yields (relay port, commands that install the rule).

    Yields nothing for rules of other programs.
    """
    if listing[0] == "ip":
        match = _ROUTE_LINE.fullmatch(line.strip())
        if match and int(match[1], 16) == int(match[2]) and 0 < int(match[2]) - ROUTE_BASE < 1 << 16:
            ip, route = listing[:2], int(match[2])
            add = (*ip, "rule", "add", "fwmark", hex(route), "lookup", str(route))
            # This rule is removed last: as long as it exists, an interrupted removal can be found and repeated.
            yield route - ROUTE_BASE, [(*ip, "route", "add", "local", "default", "dev", "lo", "table", str(route)), add]
        return
    match = _CHAIN_LINE.fullmatch(line.strip())
    if match:
        yield int(match[1]), [(*listing[:-1], *shlex.split(line))]
