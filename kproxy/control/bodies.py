"""Reads rules from the body of an HTTP request: a text, JSON or YAML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kproxy.control.actions import UNNAMED, Reason, RefusedError, rule_of
from kproxy.decoders.schema import Definitions
from kproxy.faults import files
from kproxy.faults.parsing import from_object
from kproxy.faults.rule import Rule
from kproxy.faults.trouble import FaultsError, RuleError

LARGEST = 1 << 16
"""Maximum size of a body in bytes."""
WHERE = "body"
"""The name of the body in errors."""
TEXT, JSON, YAML = "text", "json", "yaml"
FORMS = {
    "text/plain": TEXT,
    "application/octet-stream": TEXT,  # a request without a type
    "application/x-www-form-urlencoded": TEXT,  # curl --data without a type
    "application/json": JSON,
    "application/yaml": YAML,
    "application/x-yaml": YAML,
    "text/yaml": YAML,
}
"""The form of a body by its media type."""


def rules(body: bytes, form: str, known: Definitions) -> Sequence[Rule]:
    """The rules in a body; those without a name are UNNAMED. Raises RefusedError.

    A text is one rule; JSON is a rule (a text or an object) or a list of rules; YAML is a list of rules.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise RefusedError(Reason.INVALID, "the body is not UTF-8 text") from None
    if form == TEXT:
        return (rule_of(text.strip(), known),)
    try:
        if form == JSON:
            value = files.from_json(text, WHERE)
            if not isinstance(value, list) and not (isinstance(value, dict) and set(value) == {"rules"}):
                return (_named(from_object(value, _default(value), known), value),)
        return [
            _named(files.rule_of(item, _default(item.value), WHERE, number, known), item.value)
            for number, item in enumerate(files.items(text, WHERE), 1)
        ]
    except (FaultsError, RuleError) as error:
        raise RefusedError(Reason.INVALID, str(error)) from None


def _default(value: Any) -> str:
    """The provisional name of a rule that has none; `_named` removes it.

    The parts of an object are joined to a text that begins with the name, and errors show this text.
    """
    return UNNAMED if isinstance(value, str) else "rule"


def _named(rule: Rule, value: Any) -> Rule:
    return rule if isinstance(value, str) or "name" in value else replace(rule, name=UNNAMED)
