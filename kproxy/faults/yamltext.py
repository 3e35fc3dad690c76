"""Reads rule files in YAML: a list of texts and mappings, with the line and column of each.

    about: any text or mapping  # optional: a description, which is not part of the rules
    rules:                      # optional
      - api == Fetch => delay 500ms
      - name: lost
        match: api == Produce
        action: 'drop response'

Each value keeps its place, so that an error message can give its line and column.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

_TOP = "rules"
_ABOUT = "about"
_HINTS = {"mapping values are not allowed here": "put a text that contains a colon and a space in quotes"}
"""Advice for a mistake, by the YAML library's message."""


class YamlError(ValueError):
    """A file is not valid YAML, or is not a list of rules; `line` and `column` count from 1."""

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
    root = _composed(text)
    if isinstance(root, MappingNode):
        held = [(_name(key), value) for key, value in root.value]
        if sorted(name for name, _ in held if name != _ABOUT) == [_TOP] and len(held) <= 2:
            root = dict(held)[_TOP]
    if root is None or (isinstance(root, ScalarNode) and not root.value):
        return []
    if not isinstance(root, SequenceNode):
        raise _error('expected a list of rules: lines that begin with "- "', root)
    return [_item(node) for node in root.value]


def _composed(text: str) -> Node | None:
    """The tree of a YAML document; None if the text is empty."""
    try:
        root: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (0, 0) if mark is None else (mark.line, mark.column)
        parts = [part for part in (error.context, error.problem, _HINTS.get(error.problem or "")) if part]
        raise YamlError(": ".join(parts), line + 1, column + 1) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        raise YamlError(error.reason, before.count("\n") + 1, error.position - before.rfind("\n")) from None
    except RecursionError:
        raise YamlError("lists are nested too deeply", 1, 1) from None
    return root


def _item(node: Node) -> Item:
    if not isinstance(node, MappingNode):
        return Item(_text(node), {"": _place(node)})
    item, value = Item({}, {"": _place(node)}), {}
    for key, held in node.value:
        name = _name(key)
        if name in value:
            raise _error(f"{name} is given twice", key)
        value[name] = _text(held)
        item.places[name] = _place(held)
    item.value = value
    return item


def _name(key: Node) -> str:
    if not isinstance(key, ScalarNode):
        raise _error("expected a name, such as match", key)
    return str(key.value)


def _text(node: Node) -> str:
    if not isinstance(node, ScalarNode) or not node.value.strip():
        raise _error("expected a text; put it in quotes if it begins like a list or a mapping", node)
    return str(node.value).strip()


def _place(node: Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _error(message: str, node: Node) -> YamlError:
    return YamlError(message, *_place(node))
