"""Reads rules from the command line and from files in YAML or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kproxy.decoders.schema import Definitions
from kproxy.faults.parsing import from_object, parse
from kproxy.faults.rule import Rule
from kproxy.faults.trouble import FaultsError, RuleError
from kproxy.faults.yamltext import Item, YamlError
from kproxy.faults.yamltext import parse as parse_yaml

LARGEST = 1 << 20
"""Maximum size of a rule file in bytes."""
MOST = 1000
"""Maximum number of rules."""


def load(texts: Sequence[str], path: Path | None = None, known: Definitions | None = None) -> list[Rule]:
    """The rules given by --fault, in order, then those of a file. Raises FaultsError."""
    rules = []
    for number, text in enumerate(texts, 1):
        try:
            rules.append(parse(text, f"rule-{number}", known))
        except RuleError as error:
            raise FaultsError("\n".join(error.lines())) from None
    if path is not None:
        rules += read(path, known, len(rules))
    if len(rules) > MOST:
        raise FaultsError(f"there are {len(rules)} rules, more than the maximum of {MOST}")
    named: set[str] = set()
    for rule in rules:
        if rule.name in named:
            raise FaultsError(f"two rules are called {rule.name}")
        named.add(rule.name)
    return rules


def read(path: Path, known: Definitions | None = None, before: int = 0) -> list[Rule]:
    """The rules of a file. The nth rule is named "rule-" and `before` + n, unless it has a name. Raises FaultsError."""
    try:
        if path.stat().st_size > LARGEST:
            raise FaultsError(f"{path} is larger than {LARGEST >> 20} MiB")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise FaultsError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FaultsError(f"{path} is not UTF-8 text") from None
    return [
        rule_of(item, f"rule-{before + number}", str(path), number, known)
        for number, item in enumerate(items(text, str(path)), 1)
    ]


def rule_of(item: Item, name: str, where: str, number: int, known: Definitions | None = None) -> Rule:
    """Makes the rule that `item` describes; it is called `name` unless it has a name of its own.

    Raises FaultsError, which gives the place: `where` (the list) with line and column, or with the entry's `number`.
    """
    try:
        return from_object(item.value, name, known)
    except RuleError as error:
        line, column = item.places.get("", (0, 0))
        place = f"{where}:{line}:{column}" if line else f"{where}, rule {number}"
        raise FaultsError("\n".join(error.lines(place))) from None


def items(text: str, where: str) -> list[Item]:
    """The entries of a list of rules in YAML or JSON; `where` names the list in errors. Raises FaultsError."""
    found = _items(text, where)
    if len(found) > MOST:
        raise FaultsError(f"{where} has {len(found)} rules, more than the maximum of {MOST}")
    return found


def _items(text: str, where: str) -> list[Item]:
    if text.lstrip()[:1] in {"[", "{"}:
        found = from_json(text, where)
        if isinstance(found, dict) and set(found) - {"about"} == {"rules"}:
            found = found["rules"]
        if not isinstance(found, list):
            raise FaultsError(f"{where}:1:1: expected a list of rules")
        return [Item(value) for value in found]
    try:
        return parse_yaml(text)
    except YamlError as error:
        raise FaultsError(f"{where}:{error.line}:{error.column}: {error.message}") from None


def from_json(text: str, where: str) -> Any:
    """A value in JSON; `where` names the text in errors. Raises FaultsError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FaultsError(f"{where}:{error.lineno}:{error.colno}: {error.msg}") from None
    except ValueError as error:  # a number with too many digits
        raise FaultsError(f"{where}: {error}") from None
    except RecursionError:
        raise FaultsError(f"{where}: brackets are nested too deeply") from None
