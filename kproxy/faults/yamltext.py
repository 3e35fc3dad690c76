"""Reads the part of YAML that rule files need: a list of texts and of mappings of texts, with their places.

    rules:                      # optional
      - api == Fetch => delay 500ms
      - name: lost
        match: api == Produce
        action: 'drop response'

Anything else is refused with its line and column, rather than read in another way than YAML means it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

_KEY = re.compile(r"([A-Za-z_][\w-]*)[ ]*:(?=\s|$)[ ]*")
_TOP = "rules"
_SPECIAL = "&*!|>%@`[]{},?"


class YamlError(ValueError):
    """A text is not YAML, or more of YAML than rule files may use; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


@dataclass(slots=True)
class Item:
    """An entry of the list: a text, or a mapping. `places` are the (line, column) of each value; "" is the entry's."""

    value: str | dict[str, str]
    places: dict[str, tuple[int, int]] = field(default_factory=dict)


def parse(text: str) -> list[Item]:
    """The entries of a rule file. Raises YamlError."""
    items: list[Item] = []
    dash: int | None = None
    keys: int | None = None
    began = False
    for number, line in enumerate(text.splitlines(), 1):
        if "\t" in line[: len(line) - len(line.lstrip())]:
            raise YamlError("a tab in the indentation; YAML wants spaces", number, 1)
        content = line.strip()
        if not content or content.startswith("#") or (content == "---" and not began):
            continue
        indent = len(line) - len(line.lstrip())
        key = _KEY.match(line, indent)
        if not began and key is not None and key.group(1) == _TOP and not indent:
            rest = line[key.end() :].strip()
            if rest and not rest.startswith("#"):
                raise YamlError("the list of rules begins on the next line", number, key.end() + 1)
            began = True
            continue
        began = True
        if line.startswith("-", indent) and line[indent + 1 : indent + 2] in {" ", ""}:
            if dash is not None and indent != dash:
                raise YamlError(
                    f"the dashes of a list stand below each other, in column {dash + 1}", number, indent + 1
                )
            dash, keys = indent, None
            start = len(line) - len(line[indent + 1 :].lstrip())
            if start >= len(line):
                raise YamlError("expected a rule after the dash, on the same line", number, len(line) + 1)
            key = _KEY.match(line, start)
            if key is None:
                items.append(Item(_scalar(line, start, number), {"": (number, start + 1)}))
                continue
            keys = start
            items.append(Item({}, {"": (number, start + 1)}))
            _enter(items[-1], line, start, number)
        elif keys is not None and indent == keys:
            _enter(items[-1], line, indent, number)
        elif dash is None:
            raise YamlError('expected a list of rules: lines that begin with "- "', number, indent + 1)
        else:
            where = f"column {keys + 1}" if keys is not None else "a line of its own that begins with a dash"
            raise YamlError(f"this belongs to no rule; the next key stands in {where}", number, indent + 1)
    return items


def _enter(item: Item, line: str, start: int, number: int) -> None:
    key = _KEY.match(line, start)
    if key is None or not isinstance(item.value, dict):
        raise YamlError("expected a key and a colon, such as match:", number, start + 1)
    name = key.group(1)
    if name in item.value:
        raise YamlError(f"{name} stands here twice", number, start + 1)
    item.value[name] = _scalar(line, key.end(), number)
    item.places[name] = (number, key.end() + 1)


def _scalar(line: str, start: int, number: int) -> str:
    """The text that begins at `start` and goes to the end of the line or to a comment."""
    text = line[start:].rstrip()
    if not text or text.startswith("#"):
        raise YamlError("expected a text on the same line", number, start + 1)
    if text[0] == '"':
        return _double(text, start, number)
    if text[0] == "'":
        found = re.match(r"'((?:[^']|'')*)'", text)
        if found is None:
            raise YamlError("this quote is not closed", number, start + 1)
        _nothing_behind(text, found.end(), start, number)
        return found.group(1).replace("''", "'")
    if text[0] in _SPECIAL:
        raise YamlError(f"{text[0]} has a meaning of its own in YAML: put this text in quotes", number, start + 1)
    text = re.split(r"\s#", text, maxsplit=1)[0].rstrip()
    colon = re.search(r":\s|:$", text)
    if colon is not None:
        raise YamlError("a colon before a space begins a mapping in YAML: put this text in quotes", number,
                        start + colon.start() + 1)  # fmt: skip
    return text


def _double(text: str, start: int, number: int) -> str:
    found = re.match(r'"(?:[^"\\]|\\.)*"', text)
    if found is None:
        raise YamlError("this quote is not closed", number, start + 1)
    _nothing_behind(text, found.end(), start, number)
    try:
        return str(json.loads(found.group()))
    except ValueError:
        raise YamlError("a backslash in double quotes that YAML does not know", number, start + 1) from None


def _nothing_behind(text: str, end: int, start: int, number: int) -> None:
    rest = text[end:].strip()
    if rest and not rest.startswith("#"):
        raise YamlError("nothing may follow the closing quote", number, start + end + 1)
