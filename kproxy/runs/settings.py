"""The settings of a relay or sniffer: one value, which the launcher sends as JSON to the process that it starts."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

from kproxy.core.brokers import split_address

LISTEN_HOST = "127.0.0.1"
LISTEN_PORT = 19092
BROKER_PORT = 9092

LEAST_RING_BYTES, MOST_RING_BYTES = 1 << 20, 16 << 30
MOST_RING_FILES = 100_000

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """How kproxy authenticates to brokers on behalf of clients; with `mechanism` "" it does not.

    `credentials` is the absolute path of a file; with None they come from the environment (`kproxy.relay.credentials`).
    """

    mechanism: str = ""
    credentials: str | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The settings that may differ between several clusters.

    The fields have the meaning that they have in `Settings`.
    """

    name: str
    upstream: tuple[tuple[str, int], ...]
    listen_host: str
    listen_port: int
    port_base: int | None = None
    advertise: str = ""
    controllers: int | None = None
    sasl: SaslSettings = SaslSettings()


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS settings: fields `in_…` for clients, `out…` for brokers.

    A certificate is "CERT[,KEY]", absolute paths of PEM files. With `in_certificate` "auto", kproxy's own CA makes
    certificates; with "" clients speak plaintext. With `in_ca`, clients must have a certificate. `out_name` replaces
    the broker's host as server name and in verification. `password_env` names the environment variable that holds the
    keys' password.
    """

    AUTO: ClassVar[str] = "auto"

    in_certificate: str = ""
    in_ca: str | None = None
    out: bool = False
    out_ca: str | None = None
    out_certificate: str = ""
    out_name: str | None = None
    out_insecure: bool = False
    keylog: str | None = None
    password_env: str | None = None


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """Where the HTTP interface listens (port 0: a free port), and the token that each call needs."""

    host: str
    port: int
    token: str = dataclasses.field(repr=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a relay or sniffer. Sizes are in bytes; paths are absolute or None.

    `upstream` holds (host, port) pairs that are tried in order. A broker's port is `port_base` + node id; with None,
    `port_base` is the listen port + 1. `record_to` is the file of `-w FILE`, or with `ring_files` the directory of a
    ring (`kproxy.recording.sinks.Ring`). `run_dir` holds the run's state and control socket, `scratch_dir` the ring if
    there is no `record_to`, `index_dir` the index. An `attached` relay ends with its launcher. `snap` is the number of
    bytes recorded of each frame, `record_filter` selects the exchanges that are recorded (`kproxy.core.selection`).

    `transparent` is a mode of `kproxy.transparent.rules`; `ports` and `clients` belong to that mode, in which
    `upstream` is empty. With `setup` the relay installs the rules.

    A controller's port is `controllers` + node id. With None, controllers get ports like brokers, but DescribeQuorum
    responses are not rewritten. With `strict_ports`, a node whose port is taken gets no other port. `upstream_proxy` is
    "socks5://host:port" or "http://host:port". `more` holds further clusters that the process serves; `name` is then
    the name of the first one. Clusters differ only in the fields of `Cluster`.

    `user_definitions` are definitions besides Kafka's (`captures.definitions`), for `record_filter` and actors too.

    `faults` are the texts of rules, `faults_file` a file with more (`kproxy.faults.files`), and `fault_seed` decides
    their chances. With `faults_file` (even without rules in it) or `control`, rules that are added later act on open
    connections as well. `control` is the HTTP interface for rules (`kproxy.control`).

    `addons` are specifications for `kproxy.addons.loading`; the relay runs the actors among them.

    With `max_connections` None, only the number of file descriptors limits connections. `max_listeners` limits the
    nodes of each cluster that get a listener; `memory_max` is divided among the clusters. `run_name` is the run's name
    for `kproxy ps` and other commands.

    A sniffer (`kproxy.recording.sniffer`) records the packets of `device` that match the capture filter `bpf`.
    """

    upstream: tuple[tuple[str, int], ...]
    listen_host: str = LISTEN_HOST
    listen_port: int = LISTEN_PORT
    port_base: int | None = None
    advertise: str = ""
    hold_max: int = 1 << 20
    memory_max: int = 256 << 20
    record: bool = True
    record_to: str | None = None
    scratch: int = 256 << 20
    scratch_dir: str | None = None
    run_dir: str | None = None
    index_dir: str | None = None
    release: str | None = None
    user_definitions: tuple[str, ...] = ()
    probe: bool = True
    attached: bool = False
    ring_files: int = 0
    ring_bytes: int = 0
    ring_seconds: int | None = None
    ring_zstd: bool = True
    snap: int | None = None
    record_filter: str = ""
    transparent: str | None = None
    ports: tuple[int, ...] = (BROKER_PORT,)
    clients: str = "all"
    setup: bool = False
    controllers: int | None = None
    strict_ports: bool = False
    upstream_proxy: str | None = None
    name: str = ""
    more: tuple[Cluster, ...] = ()
    tls: TlsSettings = TlsSettings()
    max_connections: int | None = None
    max_listeners: int = 1000
    run_name: str = ""
    device: str = ""
    bpf: str = ""
    promiscuous: bool = False
    addons: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    faults_file: str | None = None
    fault_seed: int = 0
    control: ControlSettings | None = None
    sasl: SaslSettings = SaslSettings()

    def clusters(self) -> tuple[Settings, ...]:
        """The settings of each cluster that the process serves, the first one included."""
        return (replace(self, more=()), *(with_cluster(replace(self, more=()), one) for one in self.more))

    @property
    def shown_upstream(self) -> str:
        """Where the relay forwards clients' connections, in words."""
        if self.transparent is not None:
            return "their brokers"
        return "; ".join(",".join(shown(*address) for address in one.upstream) for one in self.clusters())

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        values = json.loads(text)
        values["upstream"] = _addresses(values["upstream"])
        values["ports"] = tuple(values["ports"])
        values["more"] = tuple(
            Cluster(**{**one, "upstream": _addresses(one["upstream"]), "sasl": SaslSettings(**one["sasl"])})
            for one in values["more"]
        )
        values["sasl"] = SaslSettings(**values["sasl"])
        values["tls"] = TlsSettings(**values["tls"])
        values["control"] = None if values["control"] is None else ControlSettings(**values["control"])
        values["addons"] = tuple(values["addons"])
        values["faults"] = tuple(values["faults"])
        values["user_definitions"] = tuple(values["user_definitions"])
        return cls(**values)


def with_cluster(settings: Settings, cluster: Cluster) -> Settings:
    """The settings with the fields of `cluster` put in."""
    return replace(settings, **{field.name: getattr(cluster, field.name) for field in fields(cluster)})


def _addresses(pairs: Iterable[Sequence[Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((host, port) for host, port in pairs)


def upstream(text: str) -> tuple[tuple[str, int], ...]:
    """Parses "HOST[:9092][,…]" as (host, port) pairs. Raises ValueError."""
    found = []
    for part in text.split(","):
        host, port = split_address(part.strip())
        if not host:
            raise ValueError(f"no host in {text!r}")
        _check_host(host)
        if port == 0:
            raise ValueError(f"no port in {part.strip()!r}: brokers listen on 1 to 65535")
        found.append((host, BROKER_PORT if port is None else port))
    return tuple(found)


def listen(text: str) -> tuple[str, int]:
    """Parses "[HOST:]PORT" as (host, port); "*" listens on every address. Raises ValueError."""
    if text.isdecimal():
        host, port = split_address(f"{LISTEN_HOST}:{text}")
    else:
        host, port = split_address(text)
        if port is None:
            raise ValueError(f"no port in {text!r}")
        _check_host(host)
    return host or LISTEN_HOST, LISTEN_PORT if port is None else port


def is_local(host: str) -> bool:
    """Whether a host to listen on is surely this machine's loopback."""
    return host in {"localhost", "::1"} or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None


def _check_host(host: str) -> None:
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError(f"not a host name: {host!r}") from None


def advertise(text: str) -> str:
    """Checks a template for advertised addresses (`kproxy.core.brokers.Advertise`); returns it. Raises ValueError."""
    if text:
        host, _ = split_address(text.replace("{broker}", "1").replace("{port}", "1").replace("{host}", "h"))
        if not host or re.search(r"[\s{}]", host):
            raise ValueError(
                f"no host or template in {text!r}; a template may contain {{broker}}, {{port}} and {{host}}"
            )
        _check_host(host)
    return text


def proxy(text: str) -> str:
    """Checks the address of a proxy between kproxy and the brokers (`kproxy.relay.tunnel`). Raises ValueError."""
    from kproxy.relay.tunnel import Tunnel

    return str(Tunnel.parse(text))


def size(text: str) -> int:
    """Parses "1048576", "256M", "256MiB" or "1g" as a number of bytes (units of 1024). Raises ValueError."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)(i?b)?\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError(f"not a size (16M, 1G): {text!r}")
    return int(match[1]) * _UNITS[match[2].lower()]


def ring(text: str) -> tuple[int, int, int | None]:
    """Parses "10x100MB[,10m]" as (number of files, bytes of each, seconds of each or None). Raises ValueError."""
    match = re.fullmatch(r"\s*(\d+)\s*x([^,]+)(?:,\s*(\d+)\s*([smhd])\s*)?", text, re.IGNORECASE)
    if match is None:
        raise ValueError(
            f"not a ring: {text!r}; write 10x100MB for ten files of 100 MB, or 10x100MB,10m if each lasts ten minutes"
        )
    files, each = int(match[1]), size(match[2])
    seconds = None if match[3] is None else int(match[3]) * _SECONDS[match[4].lower()]
    if not 2 <= files <= MOST_RING_FILES:
        raise ValueError(f"a ring has 2 to {MOST_RING_FILES} files, not {files}")
    if not LEAST_RING_BYTES <= each <= MOST_RING_BYTES:
        raise ValueError(f"a file of a ring may have 1M to 16G, not {match[2].strip()}")
    if seconds == 0:
        raise ValueError("a file of a ring must last at least a second")
    return files, each, seconds


def record_filter(text: str) -> str:
    """Checks a filter for recording: it may use only fields that a request's header holds. Raises ValueError."""
    from kproxy.decoders.filters import parse
    from kproxy.decoders.filters.language import REQUEST, REQUEST_ATTRIBUTES

    result = parse(text)
    if result.expression is None:
        message = result.message or "an empty filter"
        raise ValueError(f"{message} (column {result.span[0] + 1} of {text!r})")
    for field in result.expression.fields():
        if field.name not in REQUEST:
            raise ValueError(
                f"{field.name} ({field.doc}) cannot select what is recorded, because a request's header does not "
                f"hold it; use {', '.join(REQUEST)}"
            )
    if not REQUEST_ATTRIBUTES.issuperset(result.expression.attributes()):
        raise ValueError("--record cannot select by node id, only by the broker's address, host:port")
    return text


def shown(host: str, port: int) -> str:
    """The text "host:port", with brackets round an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
