"""The table of kproxy's subcommands."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple, cast

import click


class Entry(NamedTuple):
    target: str
    """module:attribute of a click.Command."""
    help: str


COMMANDS: dict[str, Entry] = {
    "run": Entry("kproxy.cli.run:command", "Forward clients to a cluster and watch what passes."),
    "ps": Entry("kproxy.cli.ps:command", "List the proxies that are running."),
    "attach": Entry("kproxy.cli.attach:command", "Watch a proxy that is running."),
    "addons": Entry("kproxy.cli.addons:command", "Load the addons of a running proxy again."),
    "stop": Entry("kproxy.cli.stop:command", "End a proxy that is running."),
    "sniff": Entry("kproxy.cli.sniff:command", "Watch the Kafka traffic that passes a network device."),
    "replay": Entry("kproxy.cli.replay:command", "Look at a capture in the terminal UI."),
    "web": Entry("kproxy.cli.web:command", "Look at a capture, or a running proxy, in a browser."),
    "export": Entry("kproxy.cli.export:command", "Write exchanges as JSON, CSV, Parquet, pcapng or HTML."),
    "stats": Entry("kproxy.cli.stats:command", "Summarise captures: count, errors, latency, bytes."),
    "topics": Entry("kproxy.cli.views:topics", "Show who produces to and consumes from each topic, and how."),
    "groups": Entry("kproxy.cli.views:groups", "Show groups over time, and why each rebalance happened."),
    "txns": Entry("kproxy.cli.views:txns", "Show transactions from begin to end."),
    "conns": Entry("kproxy.cli.views:conns", "Show connections, and how far each client came in its start-up."),
    "cluster": Entry("kproxy.cli.views:cluster", "Show controllers, leaders, ISRs, topics and reassignments."),
    "merge": Entry("kproxy.cli.repack:merge", "Merge captures into one."),
    "split": Entry("kproxy.cli.repack:split", "Split captures into bounded files."),
    "spark": Entry("kproxy.cli.spark:command", "Work on captures that outgrow one machine, by Spark."),
    "decode": Entry("kproxy.cli.decode:command", "Decode messages by hand: hex, a file, or standard input."),
    "schema": Entry("kproxy.cli.schema:command", "Look up Kafka's messages, versions, releases and error codes."),
    "demo": Entry("kproxy.cli.demo:command", "Watch real clients talk to an embedded cluster."),
    "ca": Entry("kproxy.cli.ca:command", "Show the CA of kproxy's own certificates, and export it."),
    "config": Entry("kproxy.cli.config:command", "Show where settings come from, and check them."),
    "completion": Entry("kproxy.cli.completion:command", "Print the completion script of a shell."),
    "doctor": Entry("kproxy.cli.doctor:command", "Say what this machine and terminal offer."),
}


def load(target: str) -> click.Command:
    """The command that "module:attribute" names."""
    module, _, attribute = target.partition(":")
    return cast("click.Command", getattr(import_module(module), attribute))
