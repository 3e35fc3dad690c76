"""Parses a rule: one line of text, or an object with the same parts.

[NAME: ] MATCH => ACTION [, TRIGGER] [, for DURATION]
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from kproxy.decoders.body_path import Path
from kproxy.decoders.fields import Type
from kproxy.decoders.filters import Expression
from kproxy.decoders.filters import parse as parse_filter
from kproxy.decoders.filters.bodies import BadPath, is_path
from kproxy.decoders.filters.bodies import read as read_path
from kproxy.decoders.filters.lexer import Kind, Token, tokens
from kproxy.decoders.filters.values import LITERALS, BadLiteral, nearest
from kproxy.decoders.jsonform import uuid_bytes
from kproxy.decoders.schema import Definitions, api_keys, apis, definitions
from kproxy.decoders.stream import Side
from kproxy.faults.matching import needs_response, possible_apis, unknown_field
from kproxy.faults.reads import changes_state
from kproxy.faults.rule import (
    KEYS,
    KINDS,
    Action,
    Answer,
    At,
    Blackhole,
    Brokers,
    Coordinator,
    Correlation,
    Crc,
    Delay,
    Disconnect,
    Drop,
    Duplicate,
    Edit,
    Error,
    Hold,
    Intercept,
    Leader,
    Limit,
    Malform,
    Refuse,
    Rule,
    Slice,
    Swap,
    Throttle,
    TopicId,
    Trigger,
    Versions,
)
from kproxy.faults.trouble import RuleError

LONGEST = 10_000
"""Maximum length of a rule in characters."""
ARROW = "=>"
_NAME = re.compile(r"\s*([A-Za-z][\w.-]{0,63})\s*:(?!\d)")
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_SIDES = {"request": Side.CLIENT, "response": Side.BROKER}
_MEMBERS = ("name", "match", "action", "trigger")
_MOST_NUMBER = (1 << 31) - 1


def parse(text: str, name: str = "rule", known: Definitions | None = None) -> Rule:
    """Parse the text of a rule; `name` is its name if the text gives none. Raises RuleError."""
    if len(text) > LONGEST:
        raise RuleError(f"a rule has at most {LONGEST} characters", text[:60], 0, 1)
    named = _NAME.match(text)
    start = 0
    if named is not None:
        name, start = named.group(1), named.end()
    arrow = _find(text, ARROW, start)
    if arrow is None:
        raise RuleError(f"no {ARROW}: a rule is MATCH {ARROW} ACTION, TRIGGER", text, len(text.rstrip()), len(text) + 1)
    match = _match(text, start, arrow)
    parts = list(_parts(text, arrow + len(ARROW)))
    action = _Words(text, *parts[0]).action()
    trigger = _trigger(text, parts[1:])
    return _checked(Rule(name, match, action, trigger), text, parts[0], (start, arrow), known or definitions())


def from_object(value: Any, name: str = "rule", known: Definitions | None = None) -> Rule:
    """The rule that {"match": …, "action": …, "trigger": …, "name": …} describes, or a text. Raises RuleError."""
    if isinstance(value, str):
        return parse(value, name, known)
    if not isinstance(value, Mapping):
        raise RuleError("a rule is a text, or an object with match and action", str(value)[:60], 0, 1)
    for member, text in value.items():
        if member not in _MEMBERS:
            near = nearest(str(member), _MEMBERS)
            hint = f"; did you mean {near}?" if near else f"; there are {', '.join(_MEMBERS)}"
            raise RuleError(f"a rule has no {member!r}{hint}", str(member), 0, len(str(member)))
        if not isinstance(text, str):
            raise RuleError(f"{member} is not a text", str(text)[:60], 0, 1)
    for member in ("match", "action"):
        if member not in value:
            raise RuleError(f"a rule needs {member}", json.dumps(dict(value)), 0, 1)
    given = str(value.get("name", name))
    if not re.fullmatch(r"[A-Za-z][\w.-]{0,63}", given):
        raise RuleError("a name is a letter, then letters, digits, dots, dashes or underscores", given, 0, len(given))
    trigger = value.get("trigger", "always")
    return parse(f"{given}: {value['match']} {ARROW} {value['action']}, {trigger}", given, known)


def _find(text: str, wanted: str, start: int) -> int | None:
    """The first position of `wanted` outside quotes."""
    at = start
    while at < len(text):
        if (quoted := _QUOTED.match(text, at)) is not None:
            at = quoted.end()
        elif text.startswith(wanted, at):
            return at
        else:
            at += 1
    return None


def _match(text: str, start: int, end: int) -> Expression:
    result = parse_filter(text[start:end])
    if result.expression is None:
        message = result.message or "the match is empty: write what the rule acts on, such as api == Produce"
        raise RuleError(message, text, start + result.span[0], start + max(result.span[1], result.span[0] + 1))
    field = unknown_field(result.expression)
    if field is not None:
        at = max(start, text.find(field.name, start))  # a search in quotes does not name its fields
        raise RuleError(
            f"{field.name} ({field.doc}) is not known when a rule is matched", text, at, at + len(field.name)
        )
    return result.expression


def _parts(text: str, start: int) -> Iterable[tuple[int, int]]:
    """[start, end) of each part; commas outside quotes and brackets separate the parts."""
    depth, at, begun = 0, start, start
    while at < len(text):
        if (quoted := _QUOTED.match(text, at)) is not None:
            at = quoted.end()
            continue
        depth += (text[at] in "[{(") - (text[at] in "]})")
        if text[at] == "," and depth <= 0:
            yield begun, at
            begun = at + 1
        at += 1
    yield begun, len(text)


class _Words:
    """The words of one part of a rule."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text = text
        self.end = end
        self._tokens = [
            Token(one.kind, one.value, one.start + start, one.end + start) for one in tokens(text[start:end])
        ]
        self._next = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._next]

    @property
    def over(self) -> bool:
        return self.token.kind is Kind.END

    def take(self, *values: str) -> str | None:
        """The next word, if it is one of `values`."""
        token = self.token
        if token.kind in {Kind.WORD, Kind.SYMBOL} and token.value in values:
            self._next += 1
            return token.value
        return None

    def skip(self) -> None:
        self._next += 1

    def word(self, what: str) -> Token:
        token = self.token
        if token.kind not in {Kind.WORD, Kind.TEXT}:
            raise self.error(f"expected {what}")
        self._next += 1
        return token

    def error(self, message: str, token: Token | None = None) -> RuleError:
        token = token or self.token
        return RuleError(message, self.text, token.start, max(token.end, token.start + 1))

    def number(self, what: str, least: int = 0) -> int:
        token = self.word(what)
        if not re.fullmatch(r"[+-]?\d{1,10}", token.value) or not least <= int(token.value) <= _MOST_NUMBER:
            raise self.error(f"expected {what}, a whole number from {least}, not {token.value!r}", token)
        return int(token.value)

    def duration(self, what: str) -> float:
        token = self.word(what)
        return self._seconds(token, token.value)

    def _seconds(self, token: Token, text: str) -> float:
        try:
            found = LITERALS[Type.DURATION].read(text)
        except BadLiteral as bad:
            raise self.error(bad.message, token) from None
        return int(found) / 1e9

    def side(self, default: Side | None = None) -> Side:
        named = self.take(*_SIDES)
        if named is not None:
            return _SIDES[named]
        if default is None:
            raise self.error("expected request or response")
        return default

    def finish(self) -> None:
        if not self.over:
            raise self.error(f"{self.token.value!r} does not belong here")

    def action(self) -> Action:
        verb = self.word("an action: " + ", ".join(VERBS))
        reader = VERBS.get(verb.value)
        if reader is None:
            near = nearest(verb.value, VERBS)
            hint = f"did you mean {near}?" if near else f"actions are {', '.join(VERBS)}"
            raise self.error(f"no action {verb.value!r}; {hint}", verb)
        action = reader(self)
        self.finish()
        return action

    def rest(self) -> tuple[int, int]:
        """Take the remaining words; returns their [start, end) in the text."""
        start = self.token.start
        self._next = len(self._tokens) - 1
        return start, self.end


def _error(words: _Words) -> Error:
    token = words.word("the name or number of an error")
    try:
        code = int(LITERALS[Type.ERROR].read(token.value))
    except BadLiteral as bad:
        raise words.error(bad.message, token) from None
    if not -(1 << 15) <= code < 1 << 15 or code == 0:
        raise words.error("an error code is a 16-bit number other than 0", token)
    at: list[At] = []
    applied: bool | None = None
    while not words.over:
        if not at and words.take("at"):
            at = _conditions(words)
        elif applied is None and words.take("applied"):
            applied = True
        elif applied is None and words.take("not"):
            if not words.take("applied"):
                raise words.error("expected applied after not")
            applied = False
        else:
            raise words.error(f"expected at, applied or not applied, not {words.token.value!r}")
    return Error(code, tuple(at), applied)


def _conditions(words: _Words) -> list[At]:
    found: list[At] = []
    while True:
        name = words.word("a field of the element, such as topic, partition or group")
        if name.value not in _element_names():
            near = nearest(name.value, _element_names())
            raise words.error(f"no element has {name.value!r}" + (f"; did you mean {near}?" if near else ""), name)
        if not words.take("=="):
            raise words.error(f"expected == after {name.value}")
        found.append(At(name.value, words.word("a value").value))
        if not words.take("and", "&&"):
            return found


@cache
def _element_names() -> frozenset[str]:
    from kproxy.faults.elements import ALIASES, fields_of_elements

    return frozenset(ALIASES) | fields_of_elements()


def _delay(words: _Words) -> Delay:
    time, jitter = words.duration("a duration, such as 500ms"), 0.0
    token = words.token
    if token.value.startswith(("±", "+-")):
        words.word("jitter")
        rest = token.value.removeprefix("±").removeprefix("+-")
        jitter = words._seconds(token, rest) if rest else words.duration("a duration after ±")  # noqa: SLF001 (its own)
        if jitter > time:
            raise words.error("the jitter is longer than the delay", token)
    return Delay(words.side(Side.BROKER), time, jitter)


def _hold(words: _Words) -> Hold:
    side = words.side(Side.BROKER)
    return Hold(side) if words.over else Hold(side, words.duration("a deadline, such as 30s"))


def _intercept(words: _Words) -> Intercept:
    side = words.side(Side.CLIENT)
    return Intercept(side) if words.over else Intercept(side, words.duration("a deadline, such as 30s"))


def _throttle(words: _Words) -> Throttle:
    time = words.duration("a duration, such as 5s")
    if time * 1000 > _MOST_NUMBER:
        raise words.error("throttle_time_ms has 31 bits: at most 596h")
    return Throttle(time, words.take("mute") is not None)


def _disconnect(words: _Words) -> Disconnect:
    when, sent = "before", 0
    found = words.take("before", "after", "mid")
    if found is not None:
        when = found
    if found == "mid":
        sent = words.number("the number of bytes of the answer that the client gets", 1)
    how = words.take("fin", "rst")
    if how != "fin" or not words.take("without"):
        return Disconnect(when, sent, how == "rst")
    if not words.take("close_notify"):
        raise words.error("expected close_notify after without")
    return Disconnect(when, sent, unclean=True)


def _blackhole(words: _Words) -> Blackhole:
    return Blackhole(words.take("connection", "broker") == "broker")


def _path(words: _Words) -> tuple[Path, str]:
    token = words.word("a path, such as response.body.errorCode")
    if not is_path(token.value):
        raise words.error("a path begins with request.body. or response.body.", token)
    try:
        field = read_path(token.value)
    except BadPath as bad:
        raise RuleError(
            bad.message, words.text, token.start + bad.start, token.start + max(bad.end, bad.start + 1)
        ) from None
    if field.path is None or not field.path.steps:
        raise words.error("the body itself cannot be replaced; name one of its fields", token)
    if any(step.name in {"batches", "decoded"} for step in field.path.steps):
        raise words.error("values inside a field of bytes, such as records, cannot be changed", token)
    return field.path, token.value


def _set(words: _Words) -> Edit:
    path, text = _path(words)
    token = words.token
    if token.value not in {"=", "=="}:
        raise words.error(f"expected = after {text}")
    words.skip()
    start, end = words.rest()
    written = words.text[start:end].strip()
    if not written:
        raise RuleError("expected a value after =", words.text, start, start + 1)
    try:
        value = json.loads(written)
    except ValueError:
        if written[0] in "[{\"'":
            raise RuleError("this value is not JSON", words.text, start, end) from None
        value = written
    return Edit(path, text, value, written)


def _remove(words: _Words) -> Edit:
    path, text = _path(words)
    return Edit(path, text, removes=True)


def _malform(how: str) -> Callable[[_Words], Malform]:
    what = {
        "truncate": "the number of bytes to keep",
        "length": "the length to claim",
        "flip": "the number of the byte whose lowest bit is flipped, from 0",
    }[how]

    def read(words: _Words) -> Malform:
        n = words.number(what, -_MOST_NUMBER - 1 if how == "length" else 0)
        return Malform(words.side(Side.BROKER), how, n)

    return read


def _correlation(words: _Words) -> Correlation:
    return Correlation(words.number("a number to add, such as +1", -_MOST_NUMBER - 1))


def _versions(words: _Words) -> Versions:
    hides = words.take("none") is not None
    token = words.word("the name of an API, such as Fetch")
    key = apis.by_name(token.value)
    if key is None:
        near = nearest(token.value, [one.name for one in definitions().apis.values()])
        raise words.error(f"no API {token.value!r}" + (f"; did you mean {near}?" if near else ""), token)
    name = definitions().shown_api_name(key)
    if hides:
        return Versions(name, key)
    given = words.word("the versions that are offered, such as 4-12")
    found = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", given.value)
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if low > high:
        raise words.error(f"expected versions, such as 4-12, not {given.value!r}", given)
    return Versions(name, key, low, high)


def _leader(words: _Words) -> Leader:
    token = words.word("a partition, such as orders-1")
    topic, dash, number = token.value.rpartition("-")
    if not dash or not topic or not re.fullmatch(r"\d{1,9}", number):
        raise words.error(f"expected TOPIC-PARTITION, such as orders-1, not {token.value!r}", token)
    _equals(words, "and the id of a broker")
    return Leader(topic, int(number), words.number("the id of a broker", -1))


def _equals(words: _Words, what: str) -> None:
    if words.token.value not in {"=", "=="}:
        raise words.error(f"expected = {what}")
    words.skip()


def _coordinator(words: _Words) -> Coordinator:
    key = words.word("a group or a transactional id").value
    _equals(words, "and the id of a broker")
    return Coordinator(key, words.number("the id of a broker, or -1 for none", -1))


def _brokers(words: _Words) -> Brokers:
    _equals(words, "and the ids of the brokers that are left, such as [] or [1, 2]")
    start, end = words.rest()
    found = re.fullmatch(r"\[\s*(?:(\d{1,9})(?:\s*,\s*\d{1,9})*)?\s*\]", words.text[start:end].strip())
    if found is None:
        raise RuleError("expected a list of broker ids, such as [] or [1, 2]", words.text, start, max(end, start + 1))
    return Brokers(tuple(int(one) for one in re.findall(r"\d+", found[0])))


def _topic_id(words: _Words) -> TopicId:
    topic = words.word("the name of a topic").value
    _equals(words, "and a topic id")
    token = words.word("a topic id")
    if not re.fullmatch(r"[\w-]{22}", token.value, re.ASCII):
        raise words.error(f"expected a topic id of 22 characters, as Kafka prints it, not {token.value!r}", token)
    return TopicId(topic, uuid_bytes(token.value))


def _limit(words: _Words) -> Limit:
    what = "bytes per second, such as 100kB/s"
    token = words.word(what)
    size, slash, second = token.value.partition("/")
    try:
        rate = int(LITERALS[Type.SIZE].read(size)) if slash and second == "s" else 0
    except BadLiteral:
        rate = 0
    if not 0 < rate <= _MOST_NUMBER:
        raise words.error(f"expected {what}, not {token.value!r}", token)
    return Limit(words.side(Side.BROKER), rate)


def _slice(words: _Words) -> Slice:
    n = words.number("the number of bytes of a piece", 1)
    return Slice(words.side(Side.BROKER), n)


def _answer(words: _Words) -> Answer:
    start, end = words.rest()
    written = words.text[start:end].strip()
    try:
        body = json.loads(written)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        message = 'expected the body of the answer, a JSON object such as {"errorCode": "REBALANCE_IN_PROGRESS"}'
        raise RuleError(message, words.text, start, max(end, start + 1))
    return Answer(body, written)


VERBS: Mapping[str, Callable[[_Words], Action]] = {
    "error": _error,
    "drop": lambda words: Drop(words.side()),
    "delay": _delay,
    "hold": _hold,
    "intercept": _intercept,
    "throttle": _throttle,
    "disconnect": _disconnect,
    "blackhole": _blackhole,
    "refuse": lambda _: Refuse(),
    "set": _set,
    "remove": _remove,
    "versions": _versions,
    "leader": _leader,
    "coordinator": _coordinator,
    "brokers": _brokers,
    "topic-id": _topic_id,
    "crc": lambda words: Crc(words.side(Side.BROKER)),
    "duplicate": lambda words: Duplicate(words.side(Side.BROKER)),
    "correlation": _correlation,
    "swap": lambda _: Swap(),
    "limit": _limit,
    "slice": _slice,
    "answer": _answer,
    "truncate": _malform("truncate"),
    "length": _malform("length"),
    "flip": _malform("flip"),
}
"""The parsers of actions, by the first word of the action."""


def _trigger(text: str, parts: Iterable[tuple[int, int]]) -> Trigger:
    kind: str | None = None
    n, chance, per = 0, 1.0, ""
    lasts: float | None = None
    for part in parts:
        words = _Words(text, *part)
        first = words.word(f"a trigger: {', '.join((*KINDS, 'for'))}")
        if first.value == "for" and lasts is None:
            lasts = words.duration("a duration, such as 10s")
        elif first.value in KINDS and kind is None:
            kind = first.value
            if kind in {"nth", "first", "every", "after"}:
                n = words.number(f"a number after {kind}", 1)
            elif kind == "p":
                chance = _chance(words)
            if words.take("per") or kind == "once":
                per = _key(words)
        else:
            near = nearest(first.value, (*KINDS, "for"))
            twice = first.value in {*KINDS, "for"}
            hint = (
                "a rule has one trigger"
                if twice
                else f"did you mean {near}?"
                if near
                else f"there are {', '.join(KINDS)}, for"
            )
            raise words.error(f"no trigger {first.value!r} here; {hint}", first)
        words.finish()
    return Trigger(kind or "always", n, chance, lasts, per)


def _chance(words: _Words) -> float:
    token = words.word("a chance from 0 to 1")
    if not re.fullmatch(r"[01](\.\d{1,9})?|0?\.\d{1,9}", token.value) or not 0 < float(token.value) <= 1:
        raise words.error("a chance is more than 0 and at most 1, such as 0.1", token)
    return float(token.value)


def _key(words: _Words) -> str:
    words.take("per")
    token = words.word(f"one of {', '.join(KEYS)}")
    if token.value not in KEYS:
        raise words.error(f"a rule counts per {', '.join(KEYS)}, not per {token.value}", token)
    return token.value


def _checked(rule: Rule, text: str, action: tuple[int, int], match: tuple[int, int], known: Definitions) -> Rule:
    """The rule, completed by what its match implies. Raises RuleError if its parts do not fit together."""
    start = action[0] + len(text[action[0] : action[1]]) - len(text[action[0] : action[1]].lstrip())
    keys = possible_apis(rule.match, known)
    if not keys:
        raise RuleError("no API can match this", text, match[0], match[1])
    made = rule.action
    if made.only:
        keys &= made.only
    if not keys:
        names = " or ".join(known.shown_api_name(key) for key in sorted(made.only))
        what = f"{made.verb} is for {'requests' if made.side is Side.CLIENT else 'answers'} of {names}"
        raise RuleError(f"{what}, which this match excludes", text, match[0], match[1])
    late = needs_response(rule.match, keys)
    if isinstance(made, Error):
        changing = sorted(known.shown_api_name(key) for key in keys if changes_state(key, known))
        if made.applied is None and changing:
            which = changing[0] if len(changing) == 1 else f"{changing[0]} and {len(changing) - 1} more that match"
            raise RuleError(
                f"say whether the broker does it: {made} applied, or {made} not applied ({which} may change state)",
                text, start, action[1],
            )  # fmt: skip
        if made.applied is None:
            made = Error(made.code, made.at, applied=late or api_keys.METADATA in keys)
    if late and made.side is Side.CLIENT:
        raise RuleError(
            "the match needs the response, but the action acts on the request, which is sent earlier",
            text,
            start,
            action[1],
        )
    return Rule(rule.name, rule.match, made, rule.trigger, keys, late)
