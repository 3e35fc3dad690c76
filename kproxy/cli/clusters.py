"""The clusters in the configuration: tables [clusters.NAME], in a profile or at the top level."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.cli import settings as cli
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options.sasl import mechanism, of_cluster

if TYPE_CHECKING:
    from kproxy.runs.settings import Cluster, SaslSettings

REQUIRED = ("upstream", "listen")


def configured() -> Mapping[str, Any]:
    """The tables [clusters.NAME] of the configuration by name; {} if there are none."""
    cli.read_sources()
    return cli.table("clusters")


def clusters(names: tuple[str, ...], advertise: str = "", sasl: SaslSettings | None = None) -> tuple[Cluster, ...]:
    """The configured clusters with these names; all clusters if `names` is empty. Raises Failure (exit 2).

    `advertise` and `sasl` apply to clusters whose tables do not set them.
    """
    tables = configured()
    for name in names:
        if name not in tables:
            near = cli.nearest(name, tables)
            hint = f"; did you mean {near}?" if near else ""
            raise Failure(f"no [clusters.{name}] in {cli.config_path()}{hint}", Exit.USAGE)
    try:
        return tuple(cluster(name, tables[name], advertise, sasl) for name in names or tables)
    except (TypeError, ValueError) as error:
        raise Failure(str(error), Exit.USAGE) from None


def cluster(name: str, values: object, advertise: str = "", sasl: SaslSettings | None = None) -> Cluster:
    """The cluster that a table [clusters.NAME] describes. Raises TypeError or ValueError naming table and key."""
    from kproxy.runs import settings

    readers: Mapping[str, Callable[[str], Any]] = {
        "upstream": settings.upstream,
        "listen": settings.listen,
        "advertise": settings.advertise,
        "port-base": _port,
        "controllers": _port,
        "sasl": mechanism,
        "sasl-credentials": lambda path: str(Path(path).expanduser().absolute()),
    }
    if not isinstance(values, dict):
        raise TypeError(f"clusters: {name!r} is not a table")
    read: dict[str, Any] = {}
    for key, value in values.items():
        reader = readers.get(key)
        if reader is None:
            near = cli.nearest(key, readers)
            raise ValueError(f"[clusters.{name}]: unknown key {key!r}" + (f"; did you mean {near}?" if near else ""))
        try:
            read[key] = reader(str(value))
        except ValueError as error:
            raise ValueError(f"[clusters.{name}]: {key}: {error}") from None
    for key in REQUIRED:
        if key not in read:
            raise ValueError(f"[clusters.{name}]: {key} is missing")
    host, port = read["listen"]
    return settings.Cluster(
        name=name,
        upstream=read["upstream"],
        listen_host=host,
        listen_port=port,
        port_base=read.get("port-base"),
        advertise=read.get("advertise", advertise),
        controllers=read.get("controllers"),
        sasl=of_cluster(sasl or settings.SaslSettings(), read),
    )


def unfit() -> Iterator[str]:
    """One line for each table [clusters.NAME] that is invalid."""
    for name, values in configured().items():
        try:
            cluster(name, values)
        except (TypeError, ValueError) as error:
            yield str(error)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 65535:
        raise ValueError(f"not a port: {text!r}")
    return int(text)
