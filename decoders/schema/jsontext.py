"""Parses JSON with `//` comments, the format of Kafka's definitions, into values that know their line numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

DEEPEST = 64
"""Maximum depth to which objects and arrays may be nested."""

_SKIP = re.compile(r"(?:[ \t\r\n]+|//[^\n]*)*")
_SCALAR = re.compile(
    r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)\b'
)


class DefinitionError(ValueError):
    """A definition file is invalid.

    `line` counts from 1; 0 stands for the file as a whole. `file` is the file's name, "" until that is known.
    """

    def __init__(self, message: str, line: int, file: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.file = file

    def __str__(self) -> str:
        place = ":".join(filter(None, (self.file, str(self.line) if self.line else "")))
        return f"{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Element:
    """A JSON value with the line where it begins; members and elements inside it are Elements too."""

    value: Any
    line: int

    def error(self, message: str) -> DefinitionError:
        return DefinitionError(message, self.line)

    # Each of these methods raises DefinitionError if the value has another type.

    def object(self, what: str, required: Collection[str] = (), optional: Collection[str] = ()) -> dict[str, Element]:
        """The members of an object, by name.

        Raises DefinitionError unless it is an object that has all `required` members and no further members than the
        `optional` ones. `what` names the object in the error.
        """
        if not isinstance(self.value, dict):
            raise self.error(f"{what} must be an object")
        members: dict[str, Element] = self.value
        for name, element in members.items():
            if name not in required and name not in optional:
                raise element.error(f"{what} has an unknown member {name!r}")
        for name in required:
            if name not in members:
                raise self.error(f"{what} has no {name!r}")
        return members

    def items(self, what: str) -> list[Element]:
        if not isinstance(self.value, list):
            raise self.error(f"{what} must be an array")
        return self.value

    def text(self, what: str) -> str:
        if not isinstance(self.value, str):
            raise self.error(f"{what} must be a string")
        return self.value

    def whole(self, what: str, low: int, high: int) -> int:
        if type(self.value) is not int or not low <= self.value <= high:
            raise self.error(f"{what} must be a whole number from {low} to {high}")
        return self.value

    def flag(self, what: str) -> bool:
        if type(self.value) is not bool:
            raise self.error(f"{what} must be true or false")
        return self.value

    def choice(self, what: str, choices: Collection[str]) -> str:
        if self.value not in choices:
            raise self.error(f"{what} is {json.dumps(self.plain())}, not one of {', '.join(choices)}")
        return str(self.value)

    def plain(self) -> Any:
        """The value without lines, as `json.loads` returns it."""
        if isinstance(self.value, dict):
            return {name: element.plain() for name, element in self.value.items()}
        if isinstance(self.value, list):
            return [element.plain() for element in self.value]
        return self.value


class _Scan:
    """A text and the position that the parser has reached in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.line = 1
        self.depth = 0

    def skip(self) -> str:
        """Skip white space and comments; returns the next character, "" at the end of the text."""
        match = _SKIP.match(self.text, self.position)
        if match is not None:
            self.line += match[0].count("\n")
            self.position = match.end()
        return self.text[self.position : self.position + 1]

    def error(self, message: str) -> DefinitionError:
        return DefinitionError(f"not JSON: {message}", self.line)

    def unexpected(self, wanted: str) -> DefinitionError:
        next_one = self.skip()
        return self.error(f"{wanted} is missing before " + (repr(next_one) if next_one else "the end"))

    def take(self, character: str) -> bool:
        if self.skip() != character:
            return False
        self.position += 1
        return True

    def value(self) -> Element:
        next_one = self.skip()
        line = self.line
        if next_one in {"{", "["}:
            self.position += 1
            self.depth += 1
            if self.depth > DEEPEST:
                raise self.error(f"more than {DEEPEST} levels of objects and arrays")
            inside: Any = self.members() if next_one == "{" else self.elements()
            self.depth -= 1
            return Element(inside, line)
        return Element(self.scalar(), line)

    def scalar(self) -> Any:
        match = _SCALAR.match(self.text, self.position)
        if match is None:
            raise self.unexpected("a value")
        try:
            value = json.loads(match[0])
        except json.JSONDecodeError as error:
            raise self.error(error.msg) from None
        except ValueError:
            raise self.error("a number has too many digits") from None
        self.position = match.end()
        return value

    def members(self) -> dict[str, Element]:
        members: dict[str, Element] = {}
        if self.take("}"):
            return members
        while True:
            if self.skip() != '"':
                raise self.unexpected("a name in quotes")
            name = self.scalar()
            if name in members:
                raise DefinitionError(f"{name!r} appears twice in one object", self.line)
            if not self.take(":"):
                raise self.unexpected("a colon")
            members[name] = self.value()
            if self.take("}"):
                return members
            if not self.take(","):
                raise self.unexpected("a comma or }")

    def elements(self) -> list[Element]:
        elements: list[Element] = []
        if self.take("]"):
            return elements
        while True:
            elements.append(self.value())
            if self.take("]"):
                return elements
            if not self.take(","):
                raise self.unexpected("a comma or ]")


def parse(text: str) -> Element:
    """Parse a text that holds one value. Raises DefinitionError with the line of the fault."""
    scan = _Scan(text.removeprefix("\ufeff"))
    element = scan.value()
    if scan.skip():
        raise scan.error("unexpected text after the value")
    return element
