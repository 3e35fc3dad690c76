"""Texts of the program name only options and commands that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

from kproxy.captures.findings.table import RULES
from kproxy.captures.findings.text import rule_text
from kproxy.cli.commands import COMMANDS, load
from kproxy.cli.main import main

ROOT = Path(__file__).parents[2]
OPTION = re.compile(r"(?<![\w(-])--[a-z]+(?:-[a-z]+)*(?![\w-])")
COMMAND = re.compile(r"`kproxy ([a-z]+)(?: ([a-z]+))?")
KAFKA_TOOLS = {
    "kafka-acls.sh": {"--add", "--list"},
    "kafka-configs.sh": {"--all", "--describe", "--entity-type", "--topic"},
    "kafka-dump-log.sh": {"--files"},
    "kafka-features.sh": {"--release-version"},
    "kafka-leader-election.sh": {"--election-type"},
    "kafka-reassign-partitions.sh": {"--additional", "--execute", "--throttle"},
    "kafka-topics.sh": {"--describe", "--list", "--under-replicated-partitions"},
    "kafka-transactions.sh": set(),
}
"""Kafka's tools and those of their options that findings name."""
TOOL = re.compile(r"kafka-[a-z-]+\.sh")


def leaves(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        for sub in command.commands.values():
            yield from leaves(sub)


def test_options_of_advice_belong_to_the_tool_before_them() -> None:
    """The options behind a tool of Kafka are this tool's; all others are kproxy's."""
    own = options()
    tools = 0
    for rule in RULES.values():
        for line in rule_text(rule):
            tool = ""
            for word in re.findall(rf"{TOOL.pattern}|kproxy|{OPTION.pattern}", line):
                if word.startswith("--"):
                    assert word in (KAFKA_TOOLS[tool] if tool else own), (rule.id, line)
                else:
                    tool = "" if word == "kproxy" else word
                    tools += bool(tool)
    assert tools > 10


def test_commands_in_texts_exist() -> None:
    found = [match for text in texts() for match in COMMAND.findall(text)]
    assert len(found) > 20
    for name, sub in found:
        command = load(COMMANDS[name].target)
        assert not sub or not isinstance(command, click.Group) or sub in command.commands, (name, sub)


def options() -> set[str]:
    commands = [main, *(one for entry in COMMANDS.values() for one in leaves(load(entry.target)))]
    found = {
        name for one in commands for option in one.params if isinstance(option, click.Option) for name in option.opts
    }
    return found | {"--help"}


def texts() -> Iterator[str]:
    for top in ("captures", "decoders", "kproxy", "tui"):
        for path in sorted((ROOT / top).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
