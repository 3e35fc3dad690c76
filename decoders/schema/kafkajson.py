"""Checks a message definition in Kafka's own JSON form and converts it from an Element to a `Message`.

Source: the message definition files of Apache Kafka and the rules of their generator (`apiKey`, `type`, `name`,
`validVersions`, `flexibleVersions`, `fields`, `commonStructs`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from kproxy.decoders.schema.jsontext import DefinitionError, Element
from kproxy.decoders.schema.layout import RANGES
from kproxy.decoders.schema.model import ALWAYS, NEVER, NO_VERSION, Field, Kind, Message, Struct, Versions
from kproxy.decoders.schema.reading import PRIMITIVES

KINDS: Final = ("request", "response", "data")
HIGHEST_KEY: Final = 32767
MOST_FIELDS: Final = 5_000
"""Maximum number of fields of a message; a struct's fields count at each use. Kafka's largest message has about 100."""
FIELD_REQUIRED: Final = frozenset({"name", "type", "versions"})
FIELD_OPTIONAL: Final = frozenset(
    {
        "nullableVersions", "taggedVersions", "flexibleVersions", "tag", "default", "about", "mapKey", "entityType",
        "ignorable", "zeroCopy", "fields",
    }
)  # fmt: skip
_MESSAGE_REQUIRED = ("type", "name", "validVersions", "flexibleVersions", "fields")
_MESSAGE_OPTIONAL = ("apiKey", "listeners", "commonStructs", "latestVersionUnstable", "deprecatedVersions", "about")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_VERSIONS = re.compile(r"none|\d{1,5}(?:\+|-\d{1,5})?")
_NULLABLE = frozenset({"string", "bytes", "records"})


def message(element: Element) -> Message:
    """The message that an Element defines.

    Raises DefinitionError if Kafka's own generator would refuse it, or the API key is not an int16 of 0 or more.
    """
    if isinstance(element.value, dict) and "type" in element.value:
        element.value["type"].choice("a message's type", KINDS)
    members = element.object("a message", _MESSAGE_REQUIRED, _MESSAGE_OPTIONAL)
    kind = members["type"].text("a message's type")
    name = identifier(members["name"], "a message's name")
    valid = versions(members["validVersions"], "validVersions")
    if not valid or valid.high == NO_VERSION:
        raise members["validVersions"].error(f"validVersions of {name} is {valid}: it needs a first and a last version")
    key = None
    if kind != "data":
        if "apiKey" not in members:
            raise element.error(f"{name} has no 'apiKey'")
        key = members["apiKey"].whole("apiKey", 0, HIGHEST_KEY)
        ending = kind.capitalize()
        if not name.endswith(ending) or name == ending:
            raise members["name"].error(f"the name of a {kind} must end in {ending}: {name}")
    elif "apiKey" in members:
        raise members["apiKey"].error(f"{name} is neither a request nor a response, so it cannot have an apiKey")
    unstable = "latestVersionUnstable" in members and members["latestVersionUnstable"].flag("latestVersionUnstable")
    reading = Fields(valid, versions(members["flexibleVersions"], "flexibleVersions"), members.get("commonStructs"))
    return Message(
        name=name,
        kind=cast("Kind", kind),
        api_key=key,
        versions=valid,
        flexible=reading.flexible,
        fields=reading.read(members["fields"], valid, name),
        release="",
        listeners=tuple(one.text("a listener") for one in members["listeners"].items("listeners"))
        if "listeners" in members
        else (),
        unstable=Versions(valid.high, valid.high) if unstable else NEVER,
    )


def identifier(element: Element, what: str) -> str:
    name = element.text(what)
    if not _NAME.fullmatch(name):
        raise element.error(f"{what} {name!r} is not a name: a letter, then letters, digits and _")
    return name


def versions(element: Element, what: str) -> Versions:
    """Parse a range of versions: "none", "3", "3+" or "3-5". `what` names the range in the DefinitionError."""
    text = element.text(what)
    if not _VERSIONS.fullmatch(text):
        raise element.error(f'{what} is {text!r}, not "3", "3+", "3-5" or "none"')
    found = Versions.parse(text)
    if text != "none" and not (found and found.low < NO_VERSION):
        raise element.error(f"{what} is {text!r}: there are no such versions")
    return found


class Fields:
    """Reads the fields and common structs of one message; `valid` and `flexible` are its versions."""

    required = FIELD_REQUIRED
    optional = FIELD_OPTIONAL

    def __init__(self, valid: Versions, flexible: Versions, shared: Element | None = None) -> None:
        self.valid = valid
        self.flexible = flexible
        self._shared: dict[str, dict[str, Element]] = {}
        self._open: list[str] = []
        """Names of the structs that are being read, outermost first."""
        self._count = 0
        for one in shared.items("commonStructs") if shared is not None else ():
            members = one.object("a common struct", ("name", "versions", "fields"), ("about",))
            name = identifier(members["name"], "a struct's name")
            if name in self._shared or name in PRIMITIVES:
                raise members["name"].error(f"the name {name} is already taken")
            self._shared[name] = members
        for name, members in self._shared.items():
            self._struct(name, members["fields"], versions(members["versions"], "versions"))

    def read(self, element: Element, around: Versions, owner: str) -> tuple[Field, ...]:
        """The fields of `owner`, a struct or message that is present in the versions `around`."""
        fields: list[Field] = []
        names: set[str] = set()
        tags: set[int] = set()
        for one in element.items("fields"):
            self._count += 1
            if self._count > MOST_FIELDS:
                raise one.error(f"more than {MOST_FIELDS} fields (those of a struct count at each use)")
            field = self.field(one, around)
            if field.name in names:
                raise one.error(f"{owner} has two fields {field.name}")
            names.add(field.name)
            if field.tag is not None:
                if field.tag in tags:
                    raise one.value["tag"].error(f"{owner} has two fields with tag {field.tag}")
                tags.add(field.tag)
            fields.append(field)
        return tuple(fields)

    def field(self, element: Element, around: Versions) -> Field:
        members = element.object("a field", self.required, self.optional)
        written = identifier(members["name"], "a field's name")
        name = written[0].lower() + written[1:]
        present = self._versions(members, "versions", ALWAYS)
        if not present or present.low > around.high or present.high < around.low:
            raise members["versions"].error(f"{name} has versions {present}, but its message or struct has {around}")
        declared = members["type"].text("a field's type")
        kind, array = declared.removeprefix("[]"), declared.startswith("[]")
        struct = self._type(members, kind, present)
        field = Field(
            name=name,
            type=kind,
            array=array,
            versions=present,
            nullable=self._versions(members, "nullableVersions", NEVER),
            tagged=self._versions(members, "taggedVersions", NEVER),
            tag=members["tag"].whole("a tag", 0, (1 << 31) - 1) if "tag" in members else None,
            flexible=self._versions(members, "flexibleVersions", NEVER) if "flexibleVersions" in members else None,
            map_key=_flag(members, "mapKey"),
            entity=members["entityType"].text("entityType") if "entityType" in members else None,
            ignorable=_flag(members, "ignorable"),
            struct=struct,
        )
        _flag(members, "zeroCopy")
        if field.nullable and not (array or struct is not None or kind in _NULLABLE):
            raise members["nullableVersions"].error(f"{name} is {declared}, which cannot be null")
        self._check_tag(members, field)
        return replace(field, default=_default(members["default"], field)) if "default" in members else field

    def _versions(self, members: Mapping[str, Element], name: str, usual: Versions) -> Versions:
        return versions(members[name], name) if name in members else usual

    def _type(self, members: Mapping[str, Element], kind: str, present: Versions) -> Struct | None:
        """The struct that is the type of a field; None if the type is primitive."""
        element = members["type"]
        if kind in PRIMITIVES:
            if "fields" in members:
                raise members["fields"].error(f"the type {kind} cannot have fields")
            return None
        if not kind[:1].isupper():
            raise element.error(f"unknown type {kind!r}")
        if "fields" in members:
            if kind in self._shared:
                raise members["fields"].error(f"{kind} is a common struct: define its fields in commonStructs only")
            return self._struct(kind, members["fields"], present)
        if kind not in self._shared:
            raise element.error(f"unknown type {kind!r}: it needs fields, or a common struct of this name")
        shared = self._shared[kind]
        if kind in self._open:
            raise element.error(f"the struct {kind} contains itself")
        return self._struct(kind, shared["fields"], versions(shared["versions"], "versions"))

    def _struct(self, name: str, fields: Element, present: Versions) -> Struct:
        self._open.append(name)
        found = self.read(fields, present, name)
        self._open.pop()
        if not found:
            raise fields.error(f"the struct {name} has no fields")
        return Struct(name, present, found)

    def _check_tag(self, members: Mapping[str, Element], field: Field) -> None:
        tagged = field.tagged
        if bool(tagged) != (field.tag is not None):
            missing = "'tag'" if tagged else "'taggedVersions'"
            raise members["name"].error(f"{field.name} has no {missing}: a tagged field needs both")
        low, high = max(tagged.low, self.valid.low), min(tagged.high, self.valid.high)
        if tagged and low <= high and (low not in self.flexible or high not in self.flexible):
            raise members["taggedVersions"].error(
                f"{field.name} is tagged in versions {tagged}, which are not all flexible ({self.flexible})"
            )


def _flag(members: Mapping[str, Element], name: str) -> bool:
    return name in members and members[name].flag(name)


def _default(element: Element, field: Field) -> str | bool | int:
    """The default value of a field in the form of `Field.default`. Raises DefinitionError."""
    value: Any = element.value
    if value == "null" or value is None:
        if not field.nullable:
            raise element.error(f"the default of {field.name} is null, but the field is not nullable")
        return "null"
    wrong = element.error(f"{value!r} is not a default for {field.name} of type {field.type}")
    if field.array or field.struct is not None or field.type in {"bytes", "records"}:
        raise wrong
    try:
        if field.type == "bool":
            return {"true": True, "false": False}[str(value).lower()]
        if field.type in RANGES:
            low, high = RANGES[field.type]
            number = int(str(value), 0)
            if low <= number <= high:
                return number
            raise wrong
        if field.type == "float64":
            float(value)
    except (KeyError, ValueError, TypeError) as error:
        if isinstance(error, DefinitionError):
            raise
        raise wrong from None
    if not isinstance(value, str | int | float):
        raise wrong
    return str(value)
