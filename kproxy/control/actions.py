"""Actions on the rules of a running proxy: one table, for the control socket and for HTTP."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Protocol

from kproxy.decoders.schema import Definitions
from kproxy.faults.decisions import DecisionError, held_json
from kproxy.faults.engine import Active, Engine
from kproxy.faults.files import MOST
from kproxy.faults.parsing import parse
from kproxy.faults.rule import Rule
from kproxy.faults.trouble import FaultsError, RuleError
from kproxy.faults.words import explain

Answer = dict[str, Any]

COUNTS = ("matches", "hits", "held")
"""Members of a rule's JSON that are summed over clusters."""
SHOWN_AT_ONCE = 20
"""Maximum number of intercepted frames in one answer: each is decoded while the relay's connections wait."""
UNNAMED = ""
"""The name of a rule that gets its name when it is added."""


class Reason(enum.Enum):
    """Why an action was refused."""

    INVALID = "a rule, or a text with rules, is wrong"
    MISSING = "there is no such rule"
    CONFLICT = "it conflicts with the existing rules"


class RefusedError(Exception):
    """An action was refused, and nothing has changed; the text gives the reason."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Ruled(Protocol):
    """The part of `kproxy.relay.acting.Acting` that concerns rules."""

    @property
    def engine(self) -> Engine | None: ...

    def known(self) -> Definitions: ...

    def add_rules(self, rules: Sequence[Rule]) -> None: ...

    def faults(self) -> list[Rule]: ...


class Rules:
    """The rules of a process; each of its relays, one for a cluster, has all of them.

    Methods raise RefusedError. A rule is described by `kproxy.faults.engine.Active.to_json`; each relay counts for
    itself, and the description has the sums over all relays.
    """

    def __init__(self, relays: Sequence[Ruled]) -> None:
        self._relays = relays

    @property
    def known(self) -> Definitions:
        return self._relays[0].known()

    def _engines(self) -> list[Engine]:
        return [relay.engine for relay in self._relays if relay.engine is not None]

    def _each(self, name: str | None) -> list[tuple[Engine, Active]]:
        """(engine, rule with this name) for each relay. Raises RefusedError if there is no such rule."""
        engines = self._engines()
        if not any(engine.active for engine in engines):
            raise RefusedError(Reason.MISSING, f"there is no rule {name!r}: this proxy has no rules")
        try:
            return [(engine, engine.get(str(name))) for engine in engines]
        except LookupError as error:
            raise RefusedError(Reason.MISSING, str(error.args[0])) from None

    def get(self, name: str | None) -> Answer:
        return _described(active for _, active in self._each(name))

    def all(self) -> list[Answer]:
        return [self.get(active.rule.name) for engine in self._engines()[:1] for active in engine.active]

    def add(self, rules: Sequence[Rule]) -> list[Answer]:
        """Adds all of these rules or none; those called UNNAMED get a name."""
        taken = {active.rule.name for engine in self._engines() for active in engine.active}
        if len(taken) + len(rules) > MOST:
            raise RefusedError(Reason.CONFLICT, f"a proxy has at most {MOST} rules, and this one has {len(taken)}")
        asked = {rule.name for rule in rules}
        free = (name for n in count(1) if (name := f"rule-{n}") not in taken and name not in asked)
        named = [rule if rule.name != UNNAMED else replace(rule, name=next(free)) for rule in rules]
        seen = set(taken)
        for rule in named:
            if rule.name in seen:
                raise RefusedError(Reason.CONFLICT, f"a rule named {rule.name} exists already")
            seen.add(rule.name)
        for relay in self._relays:
            relay.add_rules(named)
        return [self.get(rule.name) for rule in named]

    def remove(self, name: str | None) -> Answer:
        """Removes a rule; returns its last counts. The frames that it holds are forwarded."""
        each = self._each(name)
        last = _described(active for _, active in each)
        for engine, active in each:
            engine.remove(active.rule.name)
        return last

    def pause(self, name: str | None, paused: bool) -> Answer:
        for _, active in self._each(name):
            active.paused = paused
        return self.get(name)

    def release(self, name: str | None) -> int:
        """Forwards the frames that a rule holds or delays; returns their number."""
        return sum(engine.release(active.rule.name) for engine, active in self._each(name))

    def intercepted(self, after: int = 0) -> list[Answer]:
        """The first SHOWN_AT_ONCE frames that wait for a decision and whose number is above `after`, oldest first."""
        waiting = [(held, engine) for engine in self._engines() for held in engine.intercepted if held.number > after]
        waiting.sort(key=lambda one: one[0].number)
        return [held_json(held, engine.definitions, engine.now()) for held, engine in waiting[:SHOWN_AT_ONCE]]

    def waiting(self) -> list[int]:
        """The numbers of all frames that wait for a decision."""
        return sorted(held.number for engine in self._engines() for held in engine.intercepted)

    def decide(self, number: int, decision: Mapping[str, Any]) -> Answer:
        """Carries out a decision about an intercepted frame."""
        for engine in self._engines():
            if any(held.number == number for held in engine.intercepted):
                try:
                    engine.decide(number, decision)
                except DecisionError as error:
                    raise RefusedError(Reason.INVALID, str(error)) from None
                return {"decided": number}
        raise RefusedError(Reason.MISSING, f"no frame {number} waits for a decision")

    def reset(self, name: str | None) -> list[Answer]:
        """Sets the counts of a rule, or with None of all rules, to 0; returns these rules."""
        if name is not None:
            self._each(name)
        for engine in self._engines():
            engine.reset(name)
        return self.all() if name is None else [self.get(name)]

    def reload(self) -> list[Answer]:
        """Reads the file of --faults again; returns all rules."""
        try:
            rules = self._relays[0].faults()  # read once: all relays have the same rules
            for engine in self._engines():
                engine.replace(rules)
        except ValueError as error:
            raise RefusedError(Reason.INVALID, str(error)) from None
        return self.all()


def _described(actives: Iterator[Active]) -> Answer:
    first, *others = (active.to_json() for active in actives)
    return {**first, **{name: first[name] + sum(one[name] for one in others) for name in COUNTS}}


def _checked(rules: Sequence[Rule], known: Definitions) -> list[Answer]:
    named = (rule if rule.name else replace(rule, name=f"rule-{number}") for number, rule in enumerate(rules, 1))
    return [{**rule.to_json(), "text": rule.text, "explained": explain(rule, known)} for rule in named]


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of an action: a rule's name, new rules, or an intercepted frame's number and a decision."""

    name: str | None = None
    rules: Sequence[Rule] = ()
    number: int = 0
    decision: Mapping[str, Any] = field(default_factory=dict)


ACTIONS: Mapping[str, Callable[[Rules, Asked], Answer]] = {
    "list": lambda rules, _: {"rules": rules.all()},
    "get": lambda rules, asked: rules.get(asked.name),
    "add": lambda rules, asked: {"rules": rules.add(asked.rules)},
    "check": lambda rules, asked: {"rules": _checked(asked.rules, rules.known)},
    "remove": lambda rules, asked: rules.remove(asked.name),
    "pause": lambda rules, asked: rules.pause(asked.name, True),
    "resume": lambda rules, asked: rules.pause(asked.name, False),
    "release": lambda rules, asked: {"released": rules.release(asked.name)},
    "reset": lambda rules, asked: {"rules": rules.reset(asked.name)},
    "intercepted": lambda rules, asked: {"intercepted": rules.intercepted(asked.number), "waiting": rules.waiting()},
    "decide": lambda rules, asked: rules.decide(asked.number, asked.decision),
    "reload": lambda rules, _: {"rules": rules.reload()},
}
"""The actions by name. Each returns a JSON object, or raises RefusedError and changes nothing."""


def rule_of(text: str, known: Definitions) -> Rule:
    """The rule that a text describes. Raises RefusedError."""
    try:
        return parse(text, UNNAMED, known)
    except (RuleError, FaultsError) as error:
        raise RefusedError(Reason.INVALID, str(error)) from None


def answer(rules: Rules, request: Answer) -> Answer:
    """The answer to a request over the control socket.

    The request has "op", an action, and its arguments: "name", "rule" (a text), or "number" and "decision". The answer
    has "error" if the action was refused; nothing has changed then.
    """
    op, name, text = request.get("op"), request.get("name"), request.get("rule")
    number, decision = request.get("number", 0), request.get("decision", {})
    act = ACTIONS.get(op) if isinstance(op, str) else None
    if act is None:
        return {"error": f"unknown operation {op!r}"}
    try:
        given = () if text is None else (rule_of(str(text), rules.known),)
        if not isinstance(number, int) or not isinstance(decision, dict):
            return {"error": "number must be a whole number, and decision an object"}
        return act(rules, Asked(None if name is None else str(name), given, number, decision))
    except RefusedError as error:
        return {"error": str(error)}
