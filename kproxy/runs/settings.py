"""What a relay is told: one value that travels as JSON from the launcher to the relay's process."""

from __future__ import annotations

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
    """How to authenticate to brokers on behalf of clients: not at all where there is no `mechanism`.

    `credentials` is a file's absolute path, None where the environment has them (`kproxy.relay.credentials`).
    """

    mechanism: str = ""
    credentials: str | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """What one of several clusters has of its own; the fields are those of `Settings`."""

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
    """`in_…` is the clients' side, `out…` the brokers'; a certificate is "CERT[,KEY]", files are absolute PEM paths.

    `in_certificate` "auto" takes certificates from kproxy's own CA, "" speaks no TLS; with `in_ca` clients must show
    one. `out_name` is asked for and verified in place of a broker's host. `password_env` is a variable's name.
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
class Settings:
    """`upstream` are (host, port) tried in order; sizes are bytes; paths are absolute or None.

    `port_base` + node id is a broker's port, listen port + 1 where it is None. `record_to` is `-w FILE`; `run_dir`
    holds the run's state and control socket, `scratch_dir` the ring where there is no `record_to`, `index_dir` the
    index. An `attached` relay ends with its launcher. With `ring_files`, `record_to` is the directory of a ring
    (`kproxy.recording.sinks.Ring`). `snap` are bytes of each frame, `record_filter` says which exchanges are recorded
    (`kproxy.core.selection`).

    `transparent` is a mode of `kproxy.transparent.rules`, whose `ports` and `clients` these are; there is no `upstream`
    then, and with `setup` the relay has the rules installed.

    `controllers` + node id is a controller's port; they are served like brokers where it is None, but not in
    descriptions of the quorum. With `strict_ports` a node whose port is taken gets no other. `upstream_proxy` is
    "socks5://host:port" or "http://host:port". The `name` is a cluster's among `more`, which one process serves too;
    of these only `upstream`, where to listen, what clients are told and how we authenticate is their own.

    `given` are definitions beside Kafka's (`captures.definitions`), which `record_filter` and actors may name.

    `addons` are what `kproxy.addons.loading` finds; in the relay the actors in them.

    `max_connections` None is what file descriptors allow; `max_listeners` nodes of each cluster are listened
    for; `memory_max` is divided among the clusters. `run_name` is what `kproxy ps` and others know the run by.

    A sniffer (`kproxy.recording.sniffer`) records the packets of a `device` that match `bpf`.
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
    given: tuple[str, ...] = ()
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
    sasl: SaslSettings = SaslSettings()

    def clusters(self) -> tuple[Settings, ...]:
        """The settings of each cluster that the process serves."""
        return (replace(self, more=()), *(with_cluster(replace(self, more=()), one) for one in self.more))

    @property
    def shown_upstream(self) -> str:
        """Where connections of clients go, in words."""
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
        values["addons"] = tuple(values["addons"])
        values["given"] = tuple(values["given"])
        return cls(**values)


def with_cluster(settings: Settings, cluster: Cluster) -> Settings:
    """The settings for one of several clusters."""
    return replace(settings, **{field.name: getattr(cluster, field.name) for field in fields(cluster)})


def _addresses(pairs: Iterable[Sequence[Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((host, port) for host, port in pairs)


def upstream(text: str) -> tuple[tuple[str, int], ...]:
    """Reads "HOST[:9092][,…]" as (host, port) pairs. Raises ValueError."""
    found = []
    for part in text.split(","):
        host, port = split_address(part.strip())
        if not host:
            raise ValueError(f"no host in {text!r}")
        _check_host(host)
        found.append((host, BROKER_PORT if port is None else port))
    return tuple(found)


def listen(text: str) -> tuple[str, int]:
    """Reads "[HOST:]PORT" as (host, port); "*" listens on every address. Raises ValueError."""
    if text.isdecimal():
        host, port = split_address(f"{LISTEN_HOST}:{text}")
    else:
        host, port = split_address(text)
        if port is None:
            raise ValueError(f"no port in {text!r}")
        _check_host(host)
    return host or LISTEN_HOST, LISTEN_PORT if port is None else port


def _check_host(host: str) -> None:
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError(f"no host name: {host!r}") from None


def advertise(text: str) -> str:
    """Checks a template of what clients are told (`kproxy.core.brokers.Advertise`). Raises ValueError."""
    if text:
        host, _ = split_address(text.replace("{broker}", "1").replace("{port}", "1").replace("{host}", "h"))
        if not host or re.search(r"[\s{}]", host):
            raise ValueError(f"no host or template in {text!r}; a template knows {{broker}}, {{port}} and {{host}}")
        _check_host(host)
    return text


def proxy(text: str) -> str:
    """Checks the address of a proxy towards the upstream (`kproxy.relay.tunnel`). Raises ValueError."""
    from kproxy.relay.tunnel import Tunnel

    return str(Tunnel.parse(text))


def size(text: str) -> int:
    """Reads "1048576", "256M", "256MiB" or "1g" as bytes (powers of 1024). Raises ValueError."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)(i?b)?\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError(f"no size: {text!r}")
    return int(match[1]) * _UNITS[match[2].lower()]


def ring(text: str) -> tuple[int, int, int | None]:
    """Reads "10x100MB[,10m]" as (files, bytes of each, seconds of each). Raises ValueError."""
    match = re.fullmatch(r"\s*(\d+)\s*x([^,]+)(?:,\s*(\d+)\s*([smhd])\s*)?", text, re.IGNORECASE)
    if match is None:
        raise ValueError(f"no ring: {text!r}; 10x100MB is ten files of 100 MB, 10x100MB,10m of ten minutes at most")
    files, each = int(match[1]), size(match[2])
    seconds = None if match[3] is None else int(match[3]) * _SECONDS[match[4].lower()]
    if not 2 <= files <= MOST_RING_FILES:
        raise ValueError(f"a ring has 2 to {MOST_RING_FILES} files, not {files}")
    if not LEAST_RING_BYTES <= each <= MOST_RING_BYTES:
        raise ValueError(f"a file of a ring has 1M to 16G, not {match[2].strip()}")
    if seconds == 0:
        raise ValueError("a file of a ring lasts a second at least")
    return files, each, seconds


def record_filter(text: str) -> str:
    """Checks a filter on what is known when a request begins. Raises ValueError."""
    from kproxy.decoders.filters import parse
    from kproxy.decoders.filters.fields import REQUEST, REQUEST_ATTRIBUTES

    result = parse(text)
    if result.expression is None:
        message = result.message or "an empty filter"
        raise ValueError(f"{message} (column {result.span[0] + 1} of {text!r})")
    for field in result.expression.fields():
        if field.name not in REQUEST:
            raise ValueError(
                f"{field.name} ({field.doc}) is not known yet when a request's header passes, which is when it is "
                f"recorded or not; what is known: {', '.join(REQUEST)}"
            )
    if not REQUEST_ATTRIBUTES.issuperset(result.expression.attributes()):
        raise ValueError("a broker's node id is not known when a request's header passes; give its address, host:port")
    return text


def shown(host: str, port: int) -> str:
    """Writes "host:port", with brackets round an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
