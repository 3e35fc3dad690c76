"""Options of `kproxy run` for addons, metrics and traces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

import click

from kproxy.cli.exits import Exit, Failure
from kproxy.cli.extras import require

if TYPE_CHECKING:
    from kproxy.runs.launcher import Event, Indexer, RelayProcess

Command = TypeVar("Command", bound=Callable[..., Any])

METRICS_HOST = "127.0.0.1"
TRACING = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter")
"""Modules that only the extra `otel` installs; other packages may install the rest of `opentelemetry`."""


@dataclass(frozen=True, slots=True)
class Addons:
    """The values of --addon, --metrics and --otel-*; `specs` are the addons, `metrics` is (host, port)."""

    specs: tuple[str, ...] = ()
    metrics: tuple[str, int] | None = None
    otel_endpoint: str | None = None
    otel_sample: float = 1.0

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments for `kproxy.addons.indexing`, () without observers. Raises Failure if an addon fails to load."""
        found: list[str] = []
        if self.metrics is not None:
            found += ["--metrics", f"{self.metrics[0]}:{self.metrics[1]}"]
        if self.otel_endpoint is not None:
            found += ["--otel-endpoint", self.otel_endpoint, "--otel-sample", str(self.otel_sample)]
        if self.specs and _observe(self.specs):
            found += [word for spec in self.specs for word in ("--addon", spec)]
        return tuple(found)

    def check(self, *, record: bool) -> None:
        """Raises Failure if the options contradict each other or cannot be fulfilled."""
        arguments = self.arguments
        if arguments and not record:
            raise Failure("metrics, traces and observers read the recording: remove --no-record", Exit.USAGE)
        if self.metrics is not None:
            from kproxy.relay import ports

            host, port = self.metrics
            try:
                for listener in ports.bind(host.strip("[]"), port):
                    listener.close()
            except OSError as error:
                raise Failure(
                    f"cannot listen on {host}:{port} for metrics: {error.strerror or error}", Exit.CONNECT
                ) from None
        if self.otel_endpoint is not None:
            for module in TRACING:
                require("--otel-endpoint", module, "otel")

    def indexer(self, relay: RelayProcess, arguments: tuple[str, ...], tell: Callable[[Event], None]) -> Indexer:
        """Starts the indexer for a recording, with the observers in its process if there are any."""
        from kproxy.runs.launcher import OBSERVING, Indexer

        assert relay.recording is not None  # noqa: S101 (callers record)
        observers = self.arguments
        if not observers:
            return Indexer(relay.recording, relay.index_dir, ("--with-parent", *arguments))
        own = ("--relay", str(relay.pid), "--run-dir", str(relay.run_dir), *observers)
        return Indexer(relay.recording, relay.index_dir, (*own, *arguments), module=OBSERVING, tell=tell)

    def observers(
        self, relay: RelayProcess, arguments: tuple[str, ...], tell: Callable[[Event], None]
    ) -> Indexer | None:
        """Starts the process of the observers, if there are any, for a recording that needs no index.

        It ends with the relay, even if this process ends earlier.
        """
        return self.indexer(relay, ("--no-index", *arguments), tell) if self.arguments else None


@cache
def _observe(specs: tuple[str, ...]) -> bool:
    """Whether there are observers among the addons. Raises Failure if one cannot be loaded or its filter is invalid."""
    from kproxy.addons import loading
    from kproxy.addons.observing import filter_of

    try:
        observers = loading.load(specs).observers
        for one in observers:
            filter_of(one)
    except (loading.LoadError, ValueError) as error:
        raise Failure(str(error), Exit.USAGE) from error
    return bool(observers)


class _Metrics(click.ParamType[Any]):
    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        host, _, port = value.rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            self.fail(f"no port in {value!r}", param, ctx)
        return host or METRICS_HOST, int(port)


class _Endpoint(click.ParamType[Any]):
    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            parts = urlsplit(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            self.fail(f"{value!r} is not an http(s) URL", param, ctx)
        if parts.username or parts.password:
            self.fail("the URL contains a user or password: authenticate with OTEL_EXPORTER_OTLP_HEADERS", param, ctx)
        return value if parts.path.strip("/") else f"{value.rstrip('/')}/v1/traces"


def addons(command: Command) -> Command:
    """Adds --addon, --metrics, --otel-endpoint and --otel-sample; the command gets an `Addons` as `addons`."""

    @wraps(command)
    def collected(
        *args: Any,
        addon: tuple[str, ...],
        metrics: tuple[str, int] | None,
        otel_endpoint: str | None,
        otel_sample: float,
        **kwargs: Any,
    ) -> Any:
        from kproxy.addons.loading import absolute

        specs = tuple(absolute(spec) for spec in addon)
        return command(*args, addons=Addons(specs, metrics, otel_endpoint, otel_sample), **kwargs)

    options = [
        click.option(
            "--addon",
            multiple=True,
            metavar="FILE.py|NAME",
            help="Load an addon: a file, a module, or a name that an installed package declares; repeatable.",
        ),
        click.option(
            "--metrics",
            type=_Metrics(),
            metavar="[HOST:]PORT",
            help="Serve metrics for Prometheus here (default host: 127.0.0.1).",
        ),
        click.option(
            "--otel-endpoint",
            type=_Endpoint(),
            metavar="URL",
            help="Send OpenTelemetry traces to this URL, a span per exchange (OTLP over HTTP).",
        ),
        click.option(
            "--otel-sample",
            type=click.FloatRange(0, 1),
            default=1.0,
            show_default=True,
            metavar="SHARE",
            help="Trace this share of the exchanges.",
        ),
    ]
    wrapped: Any = collected
    for option in reversed(options):
        wrapped = option(wrapped)
    return cast("Command", wrapped)


def log_details(event: Event) -> None:
    """Writes an event's details (a traceback) to the log."""
    if event.get("details"):
        import logging

        logging.getLogger("kproxy.addons").info("%s\n%s", event["message"], event["details"])
