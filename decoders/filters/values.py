"""Literals of the filter language: text to value, and value to text that parses to the same value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import IPv4Address, IPv6Address

from kproxy.decoders.exchange import Status
from kproxy.decoders.fields import Type
from kproxy.decoders.filters.language import KEYWORDS
from kproxy.decoders.schema.model import Versions

Value = int | str

DURATIONS: tuple[tuple[str, int], ...] = (
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
)
"""Units of durations in nanoseconds, largest first; a number without a unit is in milliseconds."""

SIZES: tuple[tuple[str, int], ...] = (
    ("GiB", 1 << 30),
    ("GB", 10**9),
    ("MiB", 1 << 20),
    ("MB", 10**6),
    ("KiB", 1 << 10),
    ("kB", 10**3),
    ("B", 1),
)
"""Units of sizes in bytes, largest first; a number without a unit is in bytes. k, M and G alone are powers of 1000."""

_MORE_UNITS = {"\u00b5s": 1_000, "\u03bcs": 1_000, "min": 60_000_000_000}
_MORE_SIZES = {"b": 1, "k": 10**3, "kb": 10**3, "m": 10**6, "g": 10**9}
_QUANTITY = re.compile(r"(\d+)(?:\.(\d+))?([A-Za-z\u00b5\u03bc]*)", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,19}", re.ASCII)
_NEGATIVE = re.compile(r"-\d{1,19}", re.ASCII)
_CLOCK = re.compile(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?", re.ASCII)
_EPOCH_NUMBER = re.compile(r"(\d{9,11})(?:\.(\d{1,9}))?", re.ASCII)
_RFC3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII
)
_BACK = re.compile(r"-\d+(?:\.\d+)?[A-Za-z\u00b5\u03bc]+", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000_000
_WORD = re.compile(r"""[^\s()!=<>~&|,"']+""")


LONGEST_GUESS = 60
"""Number of characters of a misspelt word that are compared with the known names."""


class BadLiteral(Exception):  # noqa: N818 (a finding about the text)
    """The text is not a value of its type; `message` gives a valid example.

    `partial` says that the text may become a value if the user types on.
    """

    def __init__(self, message: str, *, partial: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.partial = partial


# --- names -----------------------------------------------------------------------------------------------------------


_ADDED: dict[str, frozenset[int]] = {}
"""API keys by API name, for the APIs that users' files define; shared by all filters of the process."""


def add_api_names(names: Mapping[str, frozenset[int]]) -> None:
    """Add API names of users' files to those that filters know; a name in two dialects stands for the keys of both."""
    for name, keys in names.items():
        _ADDED[name] = _ADDED.get(name, frozenset()) | keys
    api_names.cache_clear()
    _folded.cache_clear()


def api_keys(value: Value) -> frozenset[int]:
    """The API keys that a value stands for: a number is a key itself, a name has its keys in users' files."""
    return frozenset((value,)) if isinstance(value, int) else _ADDED.get(value, frozenset())


@cache
def api_names() -> Mapping[str, Value]:
    """The value for each current or older API name: the API key, or the name itself if users' files define it."""
    from kproxy.decoders.schema.apis import all_apis

    names: dict[str, Value] = {api.name: key for key, api in all_apis().items()}
    for key, api in all_apis().items():
        for older in api.older_names:
            names.setdefault(older, key)
    for name in _ADDED:
        names.setdefault(name, name)
    return names


@cache
def error_meanings() -> Mapping[int, tuple[tuple[int, Versions, str], ...]]:
    """(API key, versions, name) by error code, for codes that have another meaning in these versions of the API."""
    from kproxy.decoders.schema.irregular import IRREGULARITIES

    found: dict[int, tuple[tuple[int, Versions, str], ...]] = {}
    for row in IRREGULARITIES:
        if row.kind == "error meaning" and row.api_key is not None and row.value is not None:
            found[row.value] = (*found.get(row.value, ()), (row.api_key, row.versions, row.name))
    return found


@cache
def error_names() -> Mapping[str, Value]:
    """The value for each current error name: its code, or the name itself if only some versions of an API use it."""
    from kproxy.decoders.schema.errors import all_errors

    names: dict[str, Value] = {error.name: code for code, error in all_errors().items()}
    for rows in error_meanings().values():
        for _, _, name in rows:
            names.setdefault(name, name)
    return names


@cache
def status_names() -> Mapping[str, Value]:
    return {status.value: status.value for status in Status}


@cache
def class_names() -> Mapping[str, Value]:
    from kproxy.decoders.schema.apis import all_apis

    return {name: name for name in dict.fromkeys(str(api.klass) for api in all_apis().values())}


def role_names() -> Mapping[str, Value]:
    from kproxy.decoders.subjects import Role

    return {role.value: role.value for role in Role}


def flag_names() -> Mapping[str, Value]:
    return {"true": 1, "false": 0}


def _older_name(kind: Type, text: str) -> int | None:
    from kproxy.decoders.schema import apis, errors

    return apis.by_name(text) if kind is Type.API else errors.by_name(text) if kind is Type.ERROR else None


def choices(kind: Type) -> Mapping[str, Value]:
    """The value for each name of a type with a closed list of values; {} for other types."""
    tables: dict[Type, Callable[[], Mapping[str, Value]]] = {
        Type.API: api_names,
        Type.ERROR: error_names,
        Type.STATUS: status_names,
        Type.CLASS: class_names,
        Type.ROLE: role_names,
        Type.FLAG: flag_names,
    }
    return tables[kind]() if kind in tables else {}


def todays_names(kind: Type) -> Mapping[str, Value]:
    """The names of `choices` without older API names; `~` and `contains` search only these."""
    names = choices(kind)
    if kind is not Type.API:
        return names
    from kproxy.decoders.schema.apis import all_apis

    apis = all_apis()
    return {name: key for name, key in names.items() if key not in apis or apis[key].name == name}


def meaning(kind: Type, name: str) -> str:
    """A few words that explain a name of a closed list; "" if none are needed."""
    from kproxy.decoders.schema import apis, errors

    value = choices(kind).get(name)
    if not isinstance(value, int):
        return ""
    if kind is Type.API:
        api = apis.all_apis().get(value)
        return "" if api is None else f"key {value}, {api.klass}" + (f", now {api.name}" if api.name != name else "")
    if kind is Type.ERROR:
        return f"code {value}" + (", retriable" if errors.retriable(value) else "")
    return ""


@cache
def _folded(kind: Type) -> Mapping[str, Value]:
    return {name.casefold(): value for name, value in choices(kind).items()}


def nearest(word: str, names: Iterable[object]) -> str | None:
    """The name that is most similar to a misspelt `word`; None if none is similar enough."""
    import difflib

    folded = word.casefold()[:LONGEST_GUESS]

    def likeness(name: str) -> float:
        # Match the beginning of a long name almost as well as a whole short name.
        whole = difflib.SequenceMatcher(None, folded, name.casefold()).ratio()
        start = difflib.SequenceMatcher(None, folded, name.casefold()[: len(folded) + 1]).ratio()
        return max(whole, 0.95 * start)

    best = max(map(str, names), key=lambda name: (likeness(name), -len(name)), default="")
    return best if best and likeness(best) >= 0.6 else None


def _named(kind: Type, text: str) -> Value:
    """The value of a name or a number. Raises BadLiteral."""
    if kind in {Type.API, Type.ERROR} and _NUMBER.fullmatch(text):
        return _int(text)
    found = _folded(kind).get(text.casefold())
    if found is None:
        found = _older_name(kind, text)
    if found is not None:
        return found
    names = choices(kind)
    near = nearest(text, names)
    hint = f"; did you mean {near}?" if near else f"; it is one of {', '.join(names)}" if len(names) < 12 else ""
    message = f"unknown {kind} {text!r}{hint}"
    raise BadLiteral(message, partial=any(name.casefold().startswith(text.casefold()) for name in names))


# --- quantities ------------------------------------------------------------------------------------------------------


def _int(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise BadLiteral(f"{text!r} is not a whole number", partial=text == "-")
    return int(text)


def _quantity(text: str, units: Mapping[str, int], bare: int, example: str) -> int:
    if _NEGATIVE.fullmatch(text):
        # Fields of bodies can be negative: -1 means "none" or "for ever".
        return int(text) * bare
    match = _QUANTITY.fullmatch(text)
    if match is None or len(text) > 40:
        raise BadLiteral(f"{text!r} is not {example}")
    whole, fraction, unit = str(match.group(1)), str(match.group(2) or ""), str(match.group(3))
    scale = bare if not unit else units.get(unit, units.get(unit.lower()))
    if scale is None:
        partial = any(name.startswith(unit) for name in units)
        raise BadLiteral(f"unknown unit {unit!r}; write {example}", partial=partial)
    parts: int = 10 ** len(fraction)
    value, rest = divmod(int(whole + fraction) * scale, parts)
    if rest:
        raise BadLiteral(f"{text!r} is not a whole number of nanoseconds or bytes")
    return value


def duration(text: str) -> int:
    """A duration such as "50ms", "1.5s" or "2m" in nanoseconds. Raises BadLiteral.

    A number without a unit is in milliseconds.
    """
    units = {**dict(DURATIONS), **_MORE_UNITS}
    return _quantity(text, units, 1_000_000, "a duration such as 50ms, 1.5s or 2m")


def size(text: str) -> int:
    """A size such as "512", "64KiB" or "1.5MB" in bytes. Raises BadLiteral."""
    units = {**dict(SIZES), **{name.lower(): scale for name, scale in SIZES}, **_MORE_SIZES}
    return _quantity(text, units, 1, "a size such as 512, 64KiB or 1.5MB")


def time(text: str) -> int:
    """An RFC 3339 time or date (UTC if it has no zone), or epoch seconds, in nanoseconds since the epoch.

    Raises BadLiteral.
    """
    if _NEGATIVE.fullmatch(text):
        return int(text) * 1_000_000  # -1 in a body: no time, in milliseconds
    number = _EPOCH_NUMBER.fullmatch(text)
    if number is not None:
        return int(number.group(1)) * _SECOND + int((number.group(2) or "").ljust(9, "0"))
    match = _RFC3339.fullmatch(text)
    if match is None:
        partial = bool(re.fullmatch(r"[\d:T.+-]*", text))
        raise BadLiteral(
            f"{text!r} is not a time such as 2026-11-21T05:48:24Z, 12:01, -60s or epoch seconds", partial=partial
        )
    day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{hour or '00'}:{minute or '00'}:{second or '00'}+00:00")
    except ValueError as error:
        raise BadLiteral(f"{text!r}: {error}") from error
    since = moment - _EPOCH
    if zone and zone != "Z":
        sign = 1 if zone[0] == "+" else -1
        since -= sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
    nanoseconds = (since.days * 86_400 + since.seconds) * _SECOND + int((fraction or "").ljust(9, "0"))
    if nanoseconds < 0:
        raise BadLiteral(f"{text!r} is before 1970")
    return nanoseconds


def moment(text: str) -> Value:
    """The value of any time literal. Raises BadLiteral.

    A time of day ("12:01", "12:01:30.5") becomes a text with seconds ("12:01:00", "12:01:30.5"). A time before the end
    of the capture ("-60s", "-1.5m") becomes a normalised text ("-1m", "-90s"). Any other time becomes the number that
    `time` returns.
    """
    if _BACK.fullmatch(text):
        return "-" + _scaled(duration(text[1:]), DURATIONS)
    match = _CLOCK.fullmatch(text)
    if match is None:
        return time(text)
    hour, minute, second, fraction = match.groups()
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        raise BadLiteral(f"{text!r} is not a time of day; write one such as 12:01 or 23:59:30.5")
    nanoseconds = int((fraction or "").ljust(9, "0"))
    return f"{hour}:{minute}:{second or '00'}" + (f".{nanoseconds:09}".rstrip("0") if nanoseconds else "")


def before_end(value: Value) -> int | None:
    """Nanoseconds before the capture's end, for a value of `moment` that counts from there; None for other values."""
    return duration(value[1:]) if isinstance(value, str) and value.startswith("-") else None


def of_day(clock: str) -> int:
    """A time of day that `moment` returned, in nanoseconds since midnight."""
    hour, minute, second = clock.split(":")
    whole, _, fraction = second.partition(".")
    return (int(hour) * 3600 + int(minute) * 60 + int(whole)) * _SECOND + int(fraction.ljust(9, "0") or 0)


def _scaled(value: int, units: tuple[tuple[str, int], ...], bare: int = 1) -> str:
    if value < 0:
        return str(value // bare)
    for unit, scale in units:
        if value and value % scale == 0:
            return f"{value // scale}{unit}"
    return f"0{units[-1][0]}"


def _time_text(value: Value) -> str:
    if isinstance(value, str):
        return value
    if value < 0:
        return str(value // 1_000_000)
    seconds, fraction = divmod(value, _SECOND)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return text + (f".{fraction:09}".rstrip("0") if fraction else "") + "Z"


# --- the table -------------------------------------------------------------------------------------------------------


def quote(text: str) -> str:
    """The text as a literal: without quotes if it parses to the same value, else in quotes."""
    if _WORD.fullmatch(text) and text not in KEYWORDS:
        return text
    return in_quotes(text)


def in_quotes(text: str) -> str:
    """The text as a literal in quotes, which cannot be mistaken for a word of the language."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _name_text(kind: Type, value: Value) -> str:
    for name, number in choices(kind).items():
        if number == value:
            return name
    return str(value)


def _text(value: str) -> str:
    return value


_HOST = re.compile(r"[\w.%-]+")
_PORT = re.compile(r"\d{1,5}", re.ASCII)
_ADDRESS_EXAMPLE = "an address such as 10.0.0.1, 10.0.0.1:9092, [::1]:9092 or :9092"


def address(text: str) -> str:
    """An address in the form that filters compare: "host", "host:port" or ":port"; IPv6 in its short form.

    Raises BadLiteral.
    """
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise BadLiteral(f"{text!r} is not {_ADDRESS_EXAMPLE}", partial=not closed)
        return f"[{_ipv6(host, text)}]{_port(rest, text)}"
    if text.count(":") > 1:
        return _ipv6(text, text)
    host, colon, port = text.partition(":")
    if host and re.fullmatch(r"[\d.]+", host, re.ASCII):
        try:
            host = str(IPv4Address(host))
        except ValueError:
            begun = not colon and host.count(".") <= 3 and all(int(part or 0) < 256 for part in host.split("."))
            raise BadLiteral(f"{text!r} is not {_ADDRESS_EXAMPLE}", partial=begun) from None
    elif not (_HOST.fullmatch(host) if host else colon):
        raise BadLiteral(f"{text!r} is not {_ADDRESS_EXAMPLE}")
    return host + _port(colon + port, text)


def _ipv6(host: str, text: str) -> str:
    try:
        return str(IPv6Address(host))
    except ValueError:
        begun = re.fullmatch(r"[\da-fA-F:.]+", text, re.ASCII)
        raise BadLiteral(f"{text!r} is not {_ADDRESS_EXAMPLE}", partial=begun is not None) from None


def _port(text: str, whole: str) -> str:
    """The port of an address, with its colon; "" if there is none. Raises BadLiteral."""
    if text and not (_PORT.fullmatch(text[1:]) and int(text[1:]) <= 65_535):
        raise BadLiteral(f"{whole!r} has no port from 0 to 65535 after the colon", partial=text == ":")
    return text


def _broker(text: str) -> Value:
    """A broker: its node id as a number, or its address as text. Raises BadLiteral."""
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else address(text)


@dataclass(frozen=True, slots=True)
class Literal:
    """How filters write values of a type: functions that parse (raising BadLiteral) and print them, and an example."""

    read: Callable[[str], Value]
    write: Callable[[Value], str]
    example: str
    more: tuple[str, ...] = ()
    """Examples of other forms that the type allows."""


def _closed(kind: Type, example: str) -> Literal:
    """The literals of a type with a closed list of names."""
    return Literal(lambda text: _named(kind, text), lambda value: _name_text(kind, value), example)


def _quoted(value: Value) -> str:
    return quote(str(value))


LITERALS: dict[Type, Literal] = {
    Type.API: _closed(Type.API, "Fetch"),
    Type.CLASS: _closed(Type.CLASS, "group"),
    Type.ERROR: _closed(Type.ERROR, "NOT_LEADER_OR_FOLLOWER"),
    Type.STATUS: _closed(Type.STATUS, "no_response"),
    Type.ROLE: _closed(Type.ROLE, "follower"),
    Type.FLAG: _closed(Type.FLAG, "true"),
    Type.NUMBER: Literal(_int, str, "17"),
    Type.TEXT: Literal(_text, _quoted, "shop"),
    Type.ANY: Literal(_text, _quoted, "shop"),
    Type.ADDRESS: Literal(address, _quoted, "10.0.0.1:9092"),
    Type.BROKER: Literal(_broker, _quoted, "2"),
    Type.DURATION: Literal(duration, lambda value: _scaled(int(value), DURATIONS, 1_000_000), "50ms"),
    Type.SIZE: Literal(size, lambda value: _scaled(int(value), SIZES), "64KiB"),
    Type.TIME: Literal(moment, _time_text, "2026-11-21T05:48:24Z", ("12:01:30", "-60s")),
}


def pattern(text: str) -> str:
    """Checks that the text is a valid regular expression, and returns it. Raises BadLiteral."""
    from kproxy.decoders.filters.regex import BadRegex, searcher

    try:
        searcher(text)
    except BadRegex as error:
        raise BadLiteral(f"{text!r} is not a regular expression: {error}", partial=True) from error
    return text
