"""The table of kproxy's subcommands."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple, cast

import click

from kproxy.captures.views import VIEWS


class Entry(NamedTuple):
    target: str
    """Where the click.Command is: "module:attribute", with a module of this folder."""
    help: str


COMMANDS: dict[str, Entry] = {
    "run": Entry("run:command", "Forward clients to a cluster and watch what passes."),
    "ps": Entry("ps:command", "List running proxies and sniffers."),
    "attach": Entry("attach:command", "Watch a running proxy or sniffer."),
    "addons": Entry("addons:command", "Reload the addons of a running proxy."),
    "faults": Entry("faults:command", "Check rules that act on traffic; manage those of a running proxy."),
    "send": Entry("send:command", "Send requests to a broker: from JSON, or those of a capture."),
    "serve": Entry("serve:command", "Serve a recording: answer clients as the recorded brokers did."),
    "torture": Entry("torture:command", "Test a client's own program in scenarios of faults."),
    "stop": Entry("stop:command", "End a running proxy or sniffer."),
    "sniff": Entry("sniff:command", "Watch the Kafka traffic that passes a network device."),
    "replay": Entry("replay:command", "Look at a capture in the terminal UI."),
    "web": Entry("web:command", "Look at a capture, or a running proxy, in a browser."),
    "export": Entry("export:command", "Write exchanges as JSON, CSV, Parquet, pcapng or HTML."),
    "stats": Entry("stats:command", "Summarise captures: count, errors, latency, bytes."),
    "findings": Entry("findings:command", "Say what is wrong, and prove it with exchanges."),
    **{
        view.command.name: Entry(f"views:{view.command.name}", view.command.summary)
        for view in VIEWS.values()
        if view.command
    },
    "mcp": Entry("mcp:command", "Answer an agent's questions about captures (Model Context Protocol)."),
    "audit": Entry("audit:command", "Show which clients an upgrade of the brokers would cut off."),
    "merge": Entry("repack:merge", "Merge captures into one."),
    "split": Entry("repack:split", "Split captures into bounded files."),
    "spark": Entry("spark:command", "Make tables of captures with Spark, also of captures too large for one machine."),
    "decode": Entry("decode:command", "Decode messages by hand: hex, a file, or standard input."),
    "schema": Entry("schema:command", "Look up Kafka's messages, versions, releases and error codes."),
    "demo": Entry("demo:command", "Watch real clients talk to an embedded cluster."),
    "ca": Entry("ca:command", "Show the CA of kproxy's own certificates, and export it."),
    "config": Entry("config:command", "Show where settings come from, and check them."),
    "completion": Entry("completion:command", "Print the completion script of a shell."),
    "doctor": Entry("doctor:command", "Check what this machine and terminal support."),
}


def load(target: str) -> click.Command:
    """Import the command that `target` ("module:attribute") names."""
    module, _, attribute = target.partition(":")
    return cast("click.Command", getattr(import_module(f"{__name__}.{module}"), attribute))
