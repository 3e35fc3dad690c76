"""Checks a dialect file and turns its parsed text into a `Dialect`. docs/dialects.md describes the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast, get_args

from kproxy.decoders.schema.dialect import (
    MOST_CONDITIONS,
    Asks,
    Body,
    Condition,
    Dialect,
    EarlierField,
    Header,
    RequestType,
    Role,
    TimeRule,
)
from kproxy.decoders.schema.jsontext import Element
from kproxy.decoders.schema.kafkajson import FIELD_OPTIONAL, Fields, identifier, versions
from kproxy.decoders.schema.layout import RANGES
from kproxy.decoders.schema.lookup import definitions
from kproxy.decoders.schema.model import NEVER, NO_VERSION, Field, Message, Versions

DIALECT: Final = "dialect"
"""The member of a file that holds the dialect's name; message definitions have no such member."""

_REQUIRED = (DIALECT, "asks", "pairing", "requestHeader", "responseHeader", "requests")
_OPTIONAL = ("about", "port", "versions", "switches", "timeRules")
_REQUEST_REQUIRED = ("type", "name", "request")
_REQUEST_OPTIONAL = ("about", "otherNames", "response", "oneWay", "turnsRoles", "amongKafka", "supposed")
_ROLE_TYPES: Mapping[Role, tuple[str, ...]] = {
    "type": ("int8", "int16"),
    "version": ("int8", "int16"),
    "correlationId": ("int32",),
    "clientId": ("string",),
    "error": ("int16",),
}
_MOST_VERSIONS = 256
_HIGHEST = {"asked": (1 << 31) - 1, "answered": (1 << 31) - 1, "unanswered": (1 << 15) - 1}


def dialect(element: Element) -> Dialect:
    """The dialect that a parsed file defines. Raises DefinitionError if the file is invalid."""
    return _Reading(element).dialect()


@dataclass(frozen=True, slots=True)
class _Pending:
    """A condition on a field of a message that may be defined later in the file."""

    condition: Condition
    element: Element


class _DialectFields(Fields):
    """Reads fields in Kafka's form with the additions of dialects; there are no flexible versions."""

    required = frozenset({"name", "type"})
    optional = (FIELD_OPTIONAL - {"taggedVersions", "flexibleVersions", "tag"}) | {
        "versions", "countType", "presentIf", "role", "names",
    }  # fmt: skip

    def __init__(self, valid: Versions) -> None:
        super().__init__(valid, NEVER)
        self.depth = 0

    def read(self, element: Element, around: Versions, owner: str) -> tuple[Field, ...]:
        self.depth += 1
        fields = super().read(element, around, owner)
        self.depth -= 1
        return fields

    def field(self, element: Element, around: Versions) -> Field:
        found = super().field(element, around)
        members: dict[str, Element] = element.value
        for name in ("presentIf", "role"):
            if self.depth > 1 and name in members:
                raise members[name].error(f"{name} works for fields of the message itself; {found.name} is in a struct")
        if "countType" in members:
            if not found.array:
                raise members["countType"].error(f"countType is for arrays; {found.name} is not an array")
            count = members["countType"].choice("countType", ("int16", "int32"))
            found = replace(found, count=count)  # type: ignore[arg-type]  # one of the two
        if "names" in members:
            found = replace(found, names=_names(members["names"], found))
        return found


def _names(element: Element, field: Field) -> tuple[tuple[str | int, str], ...]:
    if field.array or not (field.type in RANGES or field.type == "string"):
        raise element.error(f"only whole numbers and strings can have names; {field.name} is neither")
    members = element.object("names", (), tuple(element.value) if isinstance(element.value, dict) else ())
    found: list[tuple[str | int, str]] = []
    for value, name in members.items():
        key: str | int = value
        if field.type in RANGES:
            low, high = RANGES[field.type]
            try:
                key = int(value)
            except ValueError:
                raise name.error(f"{value!r} is not a whole number") from None
            if not low <= key <= high:
                raise name.error(f"{value} does not fit {field.type}")
        found.append((key, name.text("a name")))
    return tuple(found)


class _Reading:
    def __init__(self, element: Element) -> None:
        self.members = element.object("a dialect", _REQUIRED, _OPTIONAL)
        self.element = element
        self.switches = self._switches()
        self.switched: set[str] = set()
        """Roles of header fields that a switch of the file has removed."""
        self.versions = self._versions()
        self.headers: dict[str, Message] = {}
        self.pending: list[_Pending] = []

    def dialect(self) -> Dialect:
        members = self.members
        name = members[DIALECT].text("a dialect's name")
        if not name or not all(part.isalnum() for part in name.split("-")):
            raise members[DIALECT].error(
                f"{name!r} is not a dialect's name: it needs letters and digits, with single hyphens between them"
            )
        port = members["port"].whole("port", 1, 65535) if "port" in members else None
        asks = cast("Asks", members["asks"].choice("asks", get_args(Asks)))
        request_header = self._header("requestHeader")
        response_header = self._header("responseHeader")
        if "type" not in request_header.roles:
            raise members["requestHeader"].error('no field of the request header has the role "type"')
        for role in ("type", "clientId"):
            if role in response_header.roles:
                raise members["responseHeader"].error(f"the role {role!r} works in request headers only")
        by_order = self._by_order(request_header, response_header)
        self.headers = {"request": request_header.message, "response": response_header.message}
        requests = self._requests(request_header, port)
        bodies = {body.name: body for one in requests.values() for body in (one.request, one.response) if body}
        self._resolve(bodies)
        rules = self._rules(requests, bodies)
        earlier: dict[Condition, None] = {}
        for body in bodies.values():
            earlier |= {condition: None for condition in body.conditions if isinstance(condition.source, EarlierField)}
        return Dialect(
            name, port, asks, by_order, self.versions, request_header, response_header, requests, rules, tuple(earlier)
        )

    def _switches(self) -> dict[str, bool]:
        element = self.members.get("switches")
        if element is None:
            return {}
        names = tuple(element.value) if isinstance(element.value, dict) else ()
        return {name: one.flag(f"the switch {name}") for name, one in element.object("switches", (), names).items()}

    def _versions(self) -> Versions:
        if "versions" not in self.members:
            return Versions(0, 0)
        found = versions(self.members["versions"], "versions")
        if not found or found.high == NO_VERSION or found.high - found.low >= _MOST_VERSIONS:
            raise self.members["versions"].error(f"versions is {found}: a dialect has 1 to {_MOST_VERSIONS} versions")
        return found

    def _by_order(self, request: Header, response: Header) -> bool:
        pairing = self.members["pairing"].choice("pairing", ("correlationId", "order"))
        sides = ["correlationId" in header.roles for header in (request, response)]
        if pairing == "order":
            return True
        if not any(sides) and "correlationId" in self.switched:
            return True
        if not all(sides):
            raise self.members["pairing"].error("pairing by correlationId needs a field with that role in both headers")
        return False

    # --- fields ------------------------------------------------------------------------------------------------------

    def _present(self, element: Element) -> bool:
        """Whether the file's switches keep a field."""
        for condition in _conditions(element):
            if not isinstance(condition.value, dict) or "switch" not in condition.value:
                continue
            named = condition.object("presentIf", ("switch",))["switch"].text("a switch")
            if named not in self.switches:
                raise condition.error(f"there is no switch {named!r}")
            if not self.switches[named]:
                if "role" in element.value:
                    self.switched.add(element.value["role"].text("a role"))
                return False
        return True

    def _fields(self, element: Element, owner: str) -> list[tuple[Field, Element]]:
        left = [one for one in element.items(owner) if self._present(one)]
        fields = _DialectFields(self.versions).read(Element(left, element.line), self.versions, owner)
        return list(zip(fields, left, strict=True))

    def _header(self, which: str) -> Header:
        roles: dict[Role, str] = {}
        names: dict[int, str] = {}
        fields = self._fields(self.members[which], which)
        for field, element in fields:
            members = element.value
            if any("switch" not in condition.value for condition in _conditions(element)):
                raise members["presentIf"].error("a header's field may depend on switches only")
            if field.array or field.struct is not None or field.type in {"bytes", "records"}:
                raise element.error(f"{field.name} is {field.type}: fields of headers must be numbers or strings")
            if "role" not in members:
                continue
            role = cast("Role", members["role"].choice("a role", get_args(Role)))
            if role in roles:
                raise members["role"].error(f"{roles[role]} already has the role {role}")
            if field.type not in _ROLE_TYPES[role]:
                raise members["type"].error(f"a field with the role {role} must be {' or '.join(_ROLE_TYPES[role])}")
            roles[role] = field.name
            if role == "error":
                names = {int(value): name for value, name in field.names}
        name = which[0].upper() + which[1:]
        message = Message(name, "header", None, self.versions, NEVER, tuple(field for field, _ in fields), "")
        return Header(message, roles, names)

    def _body(self, element: Element, name: str, kind: Any, number: int) -> Body:
        fields: list[tuple[Field, tuple[Condition, ...]]] = []
        for field, one in self._fields(element, name):
            if "role" in one.value:
                raise one.value["role"].error("role works in headers only")
            found = [self._condition(each, kind, fields) for each in _conditions(one) if "switch" not in each.value]
            fields.append((field, tuple(found)))
        conditions = tuple(dict.fromkeys(condition for _, several in fields for condition in several))
        if len(conditions) > MOST_CONDITIONS:
            raise element.error(
                f"{name} depends on {len(conditions)} conditions; at most {MOST_CONDITIONS} are allowed"
            )
        return Body(name, number, kind, self.versions, tuple(fields), conditions)

    def _condition(self, element: Element, kind: str, before: list[tuple[Field, tuple[Condition, ...]]]) -> Condition:
        members = element.object("presentIf", ("field", "is"), ("message",))
        name = _field_name(members["field"])
        value = members["is"].value
        if not isinstance(value, str | bool | int):
            raise members["is"].error("'is' must be a string, a whole number, true or false")
        if "message" in members:
            source = EarlierField(members["message"].text("a message's name"), name)
            found = Condition(source, name, value)
            self.pending.append(_Pending(found, element))
            return found
        fields = self.headers[kind].fields
        header = next((field for field in fields if field.name == name), None)
        own = next((field for field, _ in before if field.name == name), None)
        if header is None and own is None:
            raise members["field"].error(f"no field {name} comes before this one in the header or the body")
        _comparable(element, header or own, value)
        return Condition("header" if header is not None else "body", name, value)

    def _resolve(self, bodies: Mapping[str, Body]) -> None:
        """Checks the conditions on other messages, once all messages are read."""
        for one in self.pending:
            if isinstance(one.condition.source, EarlierField):
                field = _earlier_field(one.element, one.condition.source, bodies)
                _comparable(one.element, field, one.condition.value)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _requests(self, header: Header, port: int | None) -> dict[int, RequestType]:
        found: dict[int, RequestType] = {}
        names: set[str] = set()
        kind = next(field.type for field in header.message.fields if field.name == header.roles["type"])
        for element in self.members["requests"].items("requests"):
            one = self._request(element, header, kind)
            if one.type in found:
                raise element.value["type"].error(f"{found[one.type].name} already has type {one.type}")
            for name in one.names:
                if name.lower() in names:
                    raise element.value["name"].error(f"there are two requests {name}")
                names.add(name.lower())
            if port is None and not one.among_kafka:
                text = f"{one.name} needs amongKafka, as the dialect has no port"
                raise element.value["name"].error(text)
            found[one.type] = one
        if not found:
            raise self.members["requests"].error("a dialect needs at least one request")
        return found

    def _request(self, element: Element, header: Header, kind: str) -> RequestType:
        members = element.object("a request", _REQUEST_REQUIRED, _REQUEST_OPTIONAL)
        low, high = RANGES[kind]
        number = members["type"].whole("type", low, high)
        name = identifier(members["name"], "a request's name")
        others = members["otherNames"].items("otherNames") if "otherNames" in members else []
        flags = {
            flag: flag in members and members[flag].flag(flag)
            for flag in ("oneWay", "turnsRoles", "amongKafka", "supposed")
        }
        if flags["oneWay"] == ("response" in members):
            text = "is oneWay and has a 'response'" if flags["oneWay"] else "needs a 'response' or oneWay"
            raise element.error(f"{name} {text}")
        if flags["amongKafka"]:
            self._check_among(members["type"], header, number)
            if flags["turnsRoles"]:
                raise members["turnsRoles"].error(
                    "turnsRoles and amongKafka exclude each other: clients send all requests among Kafka's"
                )
        return RequestType(
            number,
            (name, *(identifier(other, "a request's name") for other in others)),
            self._body(members["request"], f"{name}Request", "request", number),
            self._body(members["response"], f"{name}Response", "response", number) if "response" in members else None,
            turns=flags["turnsRoles"],
            among_kafka=flags["amongKafka"],
            supposed=flags["supposed"],
        )

    def _check_among(self, element: Element, header: Header, number: int) -> None:
        first = header.message.fields[0]
        if first.name != header.roles["type"] or first.type != "int16":
            raise element.error("with amongKafka the type must be the first field, an int16 like Kafka's API key")
        api = definitions().api(number)
        if api is not None or number < 0:
            taken = "negative" if api is None else api.name
            raise element.error(f"with amongKafka the type must be an unused API key: {number} is {taken}")

    # --- time --------------------------------------------------------------------------------------------------------

    def _rules(self, requests: Mapping[int, RequestType], bodies: Mapping[str, Body]) -> tuple[TimeRule, ...]:
        if "timeRules" not in self.members:
            return ()
        by_name = {one.name: one for one in requests.values()}
        return tuple(self._rule(one, by_name, bodies) for one in self.members["timeRules"].items("timeRules"))

    @staticmethod
    def _rule(element: Element, requests: Mapping[str, RequestType], bodies: Mapping[str, Body]) -> TimeRule:
        members = element.object("a time rule", ("rule", "request", "limit"), ("after", "means", "about"))
        rule: Any = members["rule"].choice("rule", tuple(_HIGHEST))
        named = members["request"].text("a request's name")
        if named not in requests:
            raise members["request"].error(f"there is no request {named}")
        if requests[named].response is None and rule != "asked":
            raise members["request"].error(f'{named} is oneWay, so only the rule "asked" fits it')
        if (rule == "asked") != ("after" in members):
            raise element.error("the rule \"asked\" needs 'after', which no other rule takes")
        after = members["after"].text("a message's name") if "after" in members else ""
        if after and after not in bodies:
            raise members["after"].error(f"there is no message {after}")
        limit: int | EarlierField
        if isinstance(members["limit"].value, dict):
            value = members["limit"].object("limit", ("message", "field"))
            limit = EarlierField(value["message"].text("a message's name"), _field_name(value["field"]))
            field = _earlier_field(members["limit"], limit, bodies)
            if field.array or field.type not in RANGES:
                raise members["limit"].error(f"{limit.field} is not a whole number")
        else:
            limit = members["limit"].whole("limit", 0, _HIGHEST[rule])
        means = members["means"].text("means") if "means" in members else ""
        return TimeRule(rule, requests[named].type, limit, after, means)


def _conditions(field: Element) -> list[Element]:
    """The conditions of a field; a field with several is present only if all hold."""
    given = field.value.get("presentIf") if isinstance(field.value, dict) else None
    if given is None:
        return []
    conditions = given.value if isinstance(given.value, list) else [given]
    for condition in conditions:
        if not isinstance(condition.value, dict):
            raise condition.error("presentIf must be an object")
    return list(conditions)


def _field_name(element: Element) -> str:
    """A field's name as decoded values have it; files may write it with a capital, as Kafka's do."""
    name = identifier(element, "a field's name")
    return name[0].lower() + name[1:]


def _earlier_field(element: Element, earlier: EarlierField, bodies: Mapping[str, Body]) -> Field:
    """The definition of a field of an earlier message. Raises DefinitionError if there is none."""
    if earlier.message not in bodies:
        raise element.value["message"].error(f"there is no message {earlier.message}")
    fields = (field for field, _ in bodies[earlier.message].fields)
    found = next((field for field in fields if field.name == earlier.field), None)
    if found is None:
        raise element.value["field"].error(f"{earlier.message} has no field {earlier.field}")
    return found


def _comparable(element: Element, field: Field | None, value: str | bool | int) -> None:
    """Raises DefinitionError if a field can never have the value that a condition compares it with."""
    kinds: dict[str, type] = {"bool": bool, "string": str} | dict.fromkeys(RANGES, int)
    if field is None or field.array or field.struct is not None or type(value) is not kinds.get(field.type):
        name, kind = ("", "") if field is None else (field.name, f"[]{field.type}" if field.array else field.type)
        raise element.value["is"].error(f"{name} has the type {kind}, so it cannot be {element.value['is'].plain()!r}")
