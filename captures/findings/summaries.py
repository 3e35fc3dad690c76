"""Writes a rule's summary from its template and numbers, with nouns that match their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from kproxy.decoders.plurals import counted

if TYPE_CHECKING:
    from kproxy.captures.findings.model import Number

COUNTED = re.compile(r"\{(\w+):#(\w+)\}")
"""In a template, a number with its noun: "{count:#time}" is "1 time" or "2 times"."""


def summary(text: str, numbers: Mapping[str, Number]) -> str:
    """The template `text` with its fields filled, those of COUNTED included. Raises KeyError for a missing number."""
    template, nouns = _prepared(text)
    if nouns:
        numbers = {**numbers, **{f"{name} {noun}": counted(int(numbers[name]), noun) for name, noun in nouns}}
    return template.format_map(numbers)


@cache
def _prepared(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """(template, nouns): the template for `str.format_map`, and the (number, noun) of each COUNTED field.

    The field "{count:#time}" becomes "{count time}".
    """
    nouns = tuple(dict.fromkeys(COUNTED.findall(text)))
    return COUNTED.sub(r"{\1 \2}", text), nouns
