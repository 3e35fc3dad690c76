"""Decisions that a user or a program makes about intercepted frames, and the JSON that shows them a frame.

A decision is a JSON object: {"do": VERB} and the members that `VERBS` allows with this verb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kproxy.core.verdict import Asking, Ending, Turn, Verdict
from kproxy.decoders.from_json import JsonError, value
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.message import Decoded
from kproxy.decoders.schema import Definitions, errors
from kproxy.decoders.schema.layout import Layout, Shape, Slot
from kproxy.decoders.schema.layout import layout as layout_of
from kproxy.decoders.stream import Side
from kproxy.decoders.view import View
from kproxy.decoders.writer import WriteError
from kproxy.faults import synthesis
from kproxy.faults.rewriting import decoded, readable, rewritten
from kproxy.faults.rule import side_name
from kproxy.faults.trouble import CannotError

SCHEMA: Final = "kproxy.held/1"
MOST_SHOWN: Final = 1 << 20
"""Maximum size in bytes of a frame whose body is shown; the relay's other connections wait while a body is decoded."""
_SIZE: Final = 4
_VIEW: Final = View(knowledge=Knowledge(most=0))


class DecisionError(ValueError):
    """A decision cannot be carried out; the text says why."""


def held_json(held: Asking, definitions: Definitions, now: float) -> dict[str, Any]:
    """An intercepted frame as the JSON object "kproxy.held/1"; secrets are withheld.

    `now` is the present time in seconds, of the clock that `held.until` uses. `body` is None for a frame that cannot be
    decoded, or is longer than MOST_SHOWN.
    """
    turn, read = _turn(held), None if len(held.frame) > MOST_SHOWN else _decoded(held, definitions)
    body = None if read is None or read.body is None else _shown(read)
    return {
        "schema": SCHEMA,
        "held": held.number,
        "rule": held.by,
        "side": side_name(held.side),
        "api_key": turn.api_key,
        "api": definitions.api_name(turn.api_key),
        "api_version": turn.api_version,
        "correlation_id": turn.correlation_id,
        "client_id": None if read is None else read.header.get("clientId"),
        "client": turn.parties.client,
        "broker": turn.parties.broker,
        "connection": turn.parties.number,
        "left_ms": max(0, round((held.until - now) * 1000)),
        "size": len(held.frame) - _SIZE,
        "body": body,
    }


def verdict_of(held: Asking, decision: Mapping[str, Any], definitions: Definitions) -> Verdict:
    """The verdict that a decision makes on an intercepted frame. Raises DecisionError."""
    verb = decision.get("do")
    known = VERBS.get(verb) if isinstance(verb, str) else None
    if known is None:
        raise DecisionError(f'"do" is one of {", ".join(VERBS)}, not {verb!r}')
    make, members = known
    strange = sorted(set(decision) - members - {"do", "held"})
    if strange:
        raise DecisionError(
            f"{verb} has no member {strange[0]!r}" + (f"; it may have {', '.join(members)}" * bool(members))
        )
    verdict = Verdict(held.frame)
    make(held, decision, definitions, verdict)
    return verdict


def _turn(held: Asking) -> Turn:
    assert held.turn is not None  # noqa: S101 (the engine sets it)
    return held.turn


def _decoded(held: Asking, definitions: Definitions) -> Decoded:
    return decoded(held.frame, held.side, _turn(held), definitions)


def _shown(read: Decoded) -> Any:
    assert read.body is not None  # noqa: S101 (callers have looked)
    assert read.message is not None  # noqa: S101 (a body was read with it)
    return body_json(read.body, read.message, read.version, _VIEW)


def _forward(held: Asking, decision: Mapping[str, Any], definitions: Definitions, verdict: Verdict) -> None:
    verdict.notes.append(f"{held.by}: forward {side_name(held.side)}")
    if "body" not in decision:
        return
    old = _decoded(held, definitions)
    if old.message is None or old.body is None or not readable(old):
        raise DecisionError("the frame cannot be decoded, so it cannot be edited")
    layout = layout_of(old.message, old.version)
    try:
        values = _merged(layout, old.body, _shown(old), decision["body"], old.message.name)
    except JsonError as error:
        raise DecisionError(str(error)) from None
    _write(held, old, values, definitions, verdict)


def _write(held: Asking, old: Decoded, values: dict[str, Any], definitions: Definitions, verdict: Verdict) -> None:
    try:
        verdict.frame, changes = rewritten(held.frame, old, values, held.side, _turn(held), held.by, definitions)
    except (CannotError, WriteError) as error:
        raise DecisionError(str(error)) from None
    verdict.changes += changes


def _merged(layout: Layout, old: Mapping[str, Any], shown: Any, given: Any, name: str) -> dict[str, Any]:
    """The values of a struct after an edit; a field whose `given` JSON equals its `shown` JSON keeps its `old` value.

    So withheld secrets and unchanged record batches stay as they are. Fields that `given` lacks are left out. Raises
    JsonError.
    """
    if not isinstance(given, Mapping):
        raise JsonError(f"{name} has fields: write a JSON object")
    slots = {slot.name: slot for slot in layout.every()}
    if strange := next((field for field in given if field not in slots and field not in shown), None):
        raise JsonError(f"{name} has no field {strange} in this version")
    new = {field: kept for field, kept in old.items() if field in given}
    for field, one in given.items():
        if field in slots and not (field in shown and shown[field] == one):
            new[field] = _value(slots[field], old.get(field), shown.get(field), one)
    return new


def _value(slot: Slot, old: Any, shown: Any, given: Any) -> Any:
    if slot.layout is None or old is None or shown is None or given is None:
        return value(slot, given)
    if slot.shape is Shape.STRUCT:
        return _merged(slot.layout, old, shown, given, slot.name)
    if not isinstance(given, list) or len(given) != len(old):
        return value(slot, given)
    return [_merged(slot.layout, *each, slot.name) for each in zip(old, shown, given, strict=True)]


def _drop(held: Asking, _: Mapping[str, Any], __: Definitions, verdict: Verdict) -> None:
    verdict.frame = None
    verdict.notes.append(f"{held.by}: drop {side_name(held.side)}")


def _disconnect(held: Asking, decision: Mapping[str, Any], _: Definitions, verdict: Verdict) -> None:
    reset = decision.get("reset", False)
    if not isinstance(reset, bool):
        raise DecisionError('"reset" is true or false')
    verdict.ending = Ending(reset)
    verdict.notes.append(f"{held.by}: disconnect {'rst' if reset else 'fin'}")


def _duplicate(held: Asking, _: Mapping[str, Any], __: Definitions, verdict: Verdict) -> None:
    if held.side is Side.CLIENT:
        raise DecisionError("a request cannot be sent twice by a decision; a rule can do that: duplicate request")
    verdict.copies = 2
    verdict.notes.append(f"{held.by}: duplicate response")


def _error(held: Asking, decision: Mapping[str, Any], definitions: Definitions, verdict: Verdict) -> None:
    code = decision.get("code")
    found = errors.by_name(code) if isinstance(code, str) else code
    if not isinstance(found, int) or isinstance(found, bool) or not -(1 << 15) <= found < 1 << 15 or found == 0:
        raise DecisionError(f'"code" is the name or number of an error, not {code!r}')
    read = _decoded(held, definitions)
    if read.body is None or read.message is None or not readable(read):
        raise DecisionError(f"the {side_name(held.side)} cannot be decoded")
    turn = _turn(held)
    fault = synthesis.Fault(found, (), lambda _: None)
    note = f"{held.by}: error {errors.name(found)}"
    try:
        if held.side is Side.CLIENT:
            made = synthesis.answer(read, turn.api_key, turn.api_version, fault, definitions)
            answer = synthesis.frame(turn.api_key, turn.api_version, turn.correlation_id, made, definitions)
            verdict.answer_instead(note, answer)
        else:
            values = synthesis.stamped(read.message, read.version, read.body, turn.api_key, fault)
            _write(held, read, values, definitions, verdict)
            verdict.notes.append(note)
    except synthesis.NoPlaceError as error:
        raise DecisionError(str(error)) from None


_Make = Callable[[Asking, Mapping[str, Any], Definitions, Verdict], None]

VERBS: Final[Mapping[str, tuple[_Make, frozenset[str]]]] = {
    "forward": (_forward, frozenset({"body"})),
    "drop": (_drop, frozenset()),
    "error": (_error, frozenset({"code"})),
    "disconnect": (_disconnect, frozenset({"reset"})),
    "duplicate": (_duplicate, frozenset()),
}
"""The verbs of decisions: the function that changes the verdict, and the members that the decision may have.

`forward` with a `body` sends the frame with these values; fields that differ from what was shown are encoded again.
"""
