"""Applies rules to frames: implements the protocol `kproxy.core.acting.Actors`."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from kproxy.core.verdict import Asking, Ending, Pace, Turn, Verdict, Wait
from kproxy.decoders.exchange_row import Learnt, Unavailable
from kproxy.decoders.filters import Predicate
from kproxy.decoders.from_json import JsonError, body_values
from kproxy.decoders.knowledge import TEACHING
from kproxy.decoders.learning import learn_both
from kproxy.decoders.message import Decoded, decode_request, decode_response
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.schema.layout import layout
from kproxy.decoders.stream import Side
from kproxy.decoders.writer import WriteError
from kproxy.faults import synthesis
from kproxy.faults.batches import broken_crcs
from kproxy.faults.decisions import verdict_of
from kproxy.faults.editing import EditError, edited
from kproxy.faults.elements import split
from kproxy.faults.matching import FrameRow, partitions
from kproxy.faults.outages import Outages, Severable
from kproxy.faults.rewriting import readable, rewritten
from kproxy.faults.rule import (
    Answer,
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
    Versions,
    seconds,
    side_name,
)
from kproxy.faults.sessions import Sessions
from kproxy.faults.telling import Known, Told, told
from kproxy.faults.trigger import Counter
from kproxy.faults.trouble import CannotError

SIZE = 4
_PIECE_SECONDS = 0.02
"""Seconds between the pieces of a frame whose rate is limited."""
_SEGMENT_SECONDS = 0.001
"""Seconds between the pieces of a sliced frame: enough for each to leave in a TCP segment of its own."""
FEW_WAITS = 64
"""Length up to which a rule's list of waits also keeps waits that are over."""

_NUMBERS = count(1)
"""Numbers of intercepted frames, which are unique in the relay's process."""

Warn = Callable[[str, str, str], None]
"""A function (topic, line, details) that shows the user the line, once for each topic, and logs the details."""


@dataclass(slots=True, eq=False)
class Active:
    """The state of a rule: its counts, the frames that it holds, and whether it is paused."""

    rule: Rule
    matches: Predicate
    counter: Counter
    paused: bool = False
    added: bool = False
    """Whether the rule was added while the relay ran; reloading the files keeps such a rule."""
    waits: list[Wait] = field(default_factory=list)
    """The waits of this rule's frames, some of which may be over; see `add_wait`."""
    crowded: int = FEW_WAITS
    """Length of `waits` at which `add_wait` removes those that are over."""

    def add_wait(self, wait: Wait) -> None:
        """Remember a wait. The time that this takes does not grow with the number of frames that wait."""
        if len(self.waits) >= self.crowded:
            self.waits = [one for one in self.waits if not one.over]
            self.crowded = max(FEW_WAITS, 2 * len(self.waits))
        self.waits.append(wait)

    def to_json(self) -> dict[str, Any]:
        """The rule and its counters, for people and programs."""
        self.waits = [one for one in self.waits if not one.over]
        counted = {"matches": self.counter.matches, "hits": self.counter.hits}
        held = sum(one.held for one in self.waits)
        return {**self.rule.to_json(), "text": self.rule.text, **counted, "held": held, "paused": self.paused}


@dataclass(slots=True)
class _Kept:
    """The state that rules keep for a request until its response arrives."""

    request: Decoded
    size: int
    acting: list[tuple[Active, dict[str, Any] | None]] = field(default_factory=list)
    """(rule, elements) for each rule that acts on the response.

    `elements` are those that the rule took out of the request, with its error, to be put into the response; None for
    all other actions.
    """
    deciding: list[Active] = field(default_factory=list)
    """Rules whose match needs the response."""


class Engine:
    """All rules of a relay. `clock` gives the time in seconds; `seed` makes random choices repeatable.

    `address` gives the (host, port) of a broker by its node id, None if it is not known.

    If a rule cannot act on a frame, the user is warned and the frame is forwarded without the rule's change.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        definitions: Definitions,
        warn: Warn,
        clock: Callable[[], float],
        seed: int = 0,
        address: Callable[[int], tuple[str, int] | None] = lambda _: None,
    ) -> None:
        self._definitions = definitions
        self._warn = warn
        self._clock = clock
        self._address = address
        self.seed = seed
        self._active: dict[str, Active] = {}
        self._by_api: dict[int, list[Active]] = {}
        self.plans: dict[int, Any] = {}
        self._learns = False
        self._learnt = Learnt()
        self._sessions = Sessions()
        self._outages: Outages[Active] = Outages(self._lasts)
        self.add(rules)

    @property
    def definitions(self) -> Definitions:
        return self._definitions

    # --- the rules ---------------------------------------------------------------------------------------------------

    def add(self, rules: Iterable[Rule], *, added: bool = False) -> None:
        """Append rules. Raises ValueError if there is one of the same name; nothing changes then."""
        new: dict[str, Active] = {}
        for rule in rules:
            if rule.name in self._active or rule.name in new:
                raise ValueError(f"a rule named {rule.name} exists already")
            counter = Counter(rule.trigger, rule.name, self.seed, self._clock)
            new[rule.name] = Active(rule, rule.match.compile(), counter, added=added)
        self._active |= new
        self._sort()

    def replace(self, rules: Iterable[Rule]) -> None:
        """Replace the rules of the command line and of files; rules that did not change keep their counts.

        Raises ValueError if two have one name; nothing changes then.
        """
        rules = list(rules)
        added = {name: active for name, active in self._active.items() if active.added}
        names = set(added)
        for rule in rules:
            if rule.name in names:
                raise ValueError(f"a rule named {rule.name} exists already")
            names.add(rule.name)
        before = {name: active for name, active in self._active.items() if not active.added}
        self._active = {}
        for rule in rules:
            old = before.get(rule.name)
            if old is not None and old.rule.text == rule.text:
                self._active[rule.name] = before.pop(rule.name)
            else:
                self.add((rule,))
        self._active |= added
        for gone in before.values():
            _let_go(gone)
        self._sort()

    def remove(self, name: str) -> None:
        """Remove a rule; the frames that it holds are forwarded. Raises LookupError."""
        _let_go(self.get(name))
        del self._active[name]
        self._sort()

    def release(self, name: str) -> int:
        """Forward the frames that a rule holds now; returns their number. Raises LookupError."""
        active = self.get(name)
        self._outages.end(active)
        return _let_go(active)

    def reset(self, name: str | None = None) -> None:
        """Set the counts of a rule, or of all rules, to 0. Raises LookupError."""
        for active in self._active.values() if name is None else (self.get(name),):
            active.counter.reset()

    def pause(self, name: str, paused: bool = True) -> None:
        """Pause a rule, which then matches nothing, or resume it. Raises LookupError."""
        self.get(name).paused = paused

    def get(self, name: str) -> Active:
        """The rule with this name. Raises LookupError."""
        if name not in self._active:
            raise LookupError(f"there is no rule {name!r}; there are {', '.join(self._active) or 'none'}")
        return self._active[name]

    @property
    def active(self) -> Sequence[Active]:
        return tuple(self._active.values())

    def now(self) -> float:
        """The time of the engine's clock, in seconds."""
        return self._clock()

    @property
    def intercepted(self) -> Sequence[Asking]:
        """The frames that wait for a decision, oldest first."""
        waits = (wait for active in self._active.values() for wait in active.waits)
        found = [wait for wait in waits if isinstance(wait, Asking) and not wait.over]
        return sorted(found, key=lambda wait: wait.number)

    def decide(self, number: int, decision: Mapping[str, Any]) -> None:
        """Carry out a decision about an intercepted frame (`kproxy.faults.decisions`).

        Raises LookupError if no such frame waits, DecisionError if the decision is wrong; the frame waits on then.
        """
        found = next((one for one in self.intercepted if one.number == number), None)
        if found is None:
            raise LookupError(f"no frame {number} waits for a decision")
        found.decide(verdict_of(found, decision, self._definitions))

    def _sort(self) -> None:
        self._by_api = {}
        self.plans.clear()
        self._learns = False
        for active in self._active.values():
            for key in active.rule.apis:
                self._by_api.setdefault(key, []).append(active)
            action = active.rule.action
            named = isinstance(action, Error) and any(one.name in {"topic", "topicName"} for one in action.at)
            named = named or isinstance(action, Leader)
            self._learns = self._learns or named or "topics" in active.rule.match.attributes()

    def opened(self, connection: Severable, broker: str) -> None:
        """Let rules that hide or refuse the broker at this address act on a new connection to it."""
        self._outages.opened(connection, broker)

    def _lasts(self, active: Active) -> bool:
        """Whether the effect of a rule on a broker (a black hole, or refused connections) still lasts."""
        return self._active.get(active.rule.name) is active and not active.paused and active.counter.lasting

    # --- frames ------------------------------------------------------------------------------------------------------

    def act_on(self, side: Side, api_key: int) -> bool:
        if side is Side.CLIENT:
            return api_key in self._by_api
        return self._learns and api_key in TEACHING

    def passed(self, side: Side, api_key: int, api_version: int, reason: str) -> None:
        name = f"{self._definitions.shown_api_name(api_key)} v{api_version}"
        names = ", ".join(one.rule.name for one in self._by_api.get(api_key, ()))
        where = side_name(side)
        text = f"a {where} of {name} was forwarded without the rules {names}: {reason}"
        if names:
            self._warn(f"faults-{where}-{name}-{reason}", text, "")

    def offer(self, side: Side, turn: Turn, verdict: Verdict) -> None:
        """Let the rules change the verdict on a whole frame. Never raises."""
        try:
            if side is Side.CLIENT:
                self._request(turn, verdict)
            else:
                self._response(turn, verdict)
        except Exception as error:  # noqa: BLE001 (a mistake of ours must not end the connection)
            text = f"an error in kproxy stopped the rules for a {side_name(side)}: {type(error).__name__}: {error}"
            self._warn("faults-failed", text, traceback.format_exc())

    def _request(self, turn: Turn, verdict: Verdict) -> None:
        actives = self._by_api.get(turn.api_key)
        if not actives or verdict.frame is None:
            return
        kept: _Kept | None = None
        row: FrameRow | None = None
        seen: bytes | None = None
        for active in actives:
            if verdict.final:
                break
            if active.paused:
                continue
            if verdict.frame is not seen or kept is None or row is None:
                seen = verdict.frame
                asked = self._read(turn, verdict.frame)
                if kept is None:
                    kept = _Kept(asked, len(verdict.frame))
                kept.request = asked
                row = FrameRow(turn, self._definitions, self._learnt, (asked, len(verdict.frame)))
            rule = active.rule
            if rule.late:
                if turn.replies:
                    kept.deciding.append(active)
                continue
            if rule.action.side is Side.BROKER and not turn.replies:
                continue
            if not self._matches(active, row) or not self._fires(active, kept.request, turn):
                continue
            if rule.action.side is Side.BROKER:
                kept.acting.append((active, None))
            else:
                self._do(active, turn, verdict, kept)
        if kept is not None and (kept.acting or kept.deciding):
            turn.kept[self] = kept
            turn.wanted = True

    def _response(self, turn: Turn, verdict: Verdict) -> None:
        if self._learns and turn.api_key in TEACHING and verdict.frame is not None:
            self._learn(turn, verdict.frame)
        kept: _Kept | None = turn.kept.pop(self, None)
        if kept is None:
            return
        for active, elements in kept.acting:
            if verdict.final:
                return
            if elements is not None:
                self._put_back(active, turn, verdict, elements)
            else:
                self._do(active, turn, verdict, kept)
        for active in kept.deciding:
            if verdict.frame is None or verdict.final:
                return
            if active.paused:
                continue
            given = decode_response(verdict.frame, turn.api_key, turn.api_version, self._definitions)
            asked = kept.request, kept.size
            row = FrameRow(turn, self._definitions, self._learnt, asked, (given, len(verdict.frame)))
            if self._matches(active, row) and self._fires(active, kept.request, turn):
                self._do(active, turn, verdict, kept)

    def _read(self, turn: Turn, frame: bytes) -> Decoded:
        """The decoded request; a Fetch request is completed by the partitions of its fetch session."""
        decoded = decode_request(frame, self._definitions)
        if turn.api_key == api_keys.FETCH and decoded.body is not None and not decoded.problems:
            decoded.body = self._sessions.whole(turn.parties, decoded.body)
        return decoded

    def _matches(self, active: Active, row: FrameRow) -> bool:
        try:
            return active.matches(row)
        except Unavailable:
            return False

    def _fires(self, active: Active, asked: Decoded, turn: Turn) -> bool:
        """Count a match; returns whether the rule's trigger fires."""
        action = active.rule.action
        named = self._split(action, asked)[1] if isinstance(action, Error) and action.at else asked.body
        if named is None and isinstance(action, Error) and not action.applied:
            return False
        per = active.rule.trigger.per
        keys: Sequence[object] = ("",)
        if per == "client":
            keys = (asked.header.get("clientId") or turn.parties.client.rpartition(":")[0],)
        elif per == "connection":
            keys = (turn.parties.number,)
        elif per == "partition":
            keys = tuple(dict.fromkeys(partitions(named))) or ("",)
        return active.counter.fires(keys)

    def _do(self, active: Active, turn: Turn, verdict: Verdict, kept: _Kept) -> None:
        """Carry out a rule's action on a frame; if that is impossible, warn and leave the frame unchanged."""
        rule = active.rule
        try:
            self._act(active, turn, verdict, kept)
        except (CannotError, synthesis.NoPlaceError, EditError, WriteError) as error:
            active.counter.hits -= 1
            where = f"{self._definitions.shown_api_name(turn.api_key)} v{turn.api_version}"
            text = (
                f"rule {rule.name} ({rule.action}) did not change a {side_name(rule.action.side)} of {where}: {error}"
            )
            self._warn(f"faults-{rule.name}-{where}-{error}", text, "")

    def _act(self, active: Active, turn: Turn, verdict: Verdict, kept: _Kept) -> None:
        rule, action = active.rule, active.rule.action
        note = f"{rule.name}: {action}"
        now = self._clock()
        match action:
            case Error():
                if action.applied:
                    self._stamp(rule, action, turn, verdict)
                else:
                    self._refuse(active, action, turn, verdict, kept)
                return
            case Edit():
                self._edit(rule, action, turn, verdict)
                return
            case Versions() | Leader() | Coordinator() | Brokers() | TopicId():
                self._tell(active, action, turn, verdict, kept)
                return
            case Crc():
                if not self._break_crcs(active, action, turn, verdict):
                    return
            case Throttle():
                self._throttle(rule, action, turn, verdict)
                return
            case Drop():
                verdict.frame = None
            case Delay():
                late = action.time + (2 * active.counter.random.random() - 1) * action.jitter
                self._wait(active, verdict, Wait(rule.name, now + late))
                note += f" ({seconds(round(late, 3))})" if action.jitter else ""
            case Hold():
                self._wait(active, verdict, Wait(rule.name, now + action.most, held=True))
            case Intercept():
                wait = Asking(rule.name, now + action.most, True, number=next(_NUMBERS), side=action.side, turn=turn)
                self._wait(active, verdict, wait)
            case Disconnect():
                verdict.ending = Ending(action.reset, action.sent, action.unclean)
            case Blackhole():
                verdict.vanishes = True
                if action.broker:
                    self._outages.begin(active, turn.parties.broker, "vanish")
            case Refuse():
                verdict.frame = None
                self._outages.begin(active, turn.parties.broker, "sever")
            case Duplicate():
                verdict.copies += 1
            case Limit():
                size = max(round(action.rate * _PIECE_SECONDS), 1)
                self._pace(active, verdict, Pace(rule.name, 0.0, size=size, gap=size / action.rate))
            case Slice():
                self._pace(active, verdict, Pace(rule.name, 0.0, size=action.n, gap=_SEGMENT_SECONDS))
            case Answer():
                self._answer(rule, action, turn, verdict)
                return
            case Swap():
                verdict.behind = True
            case Correlation():
                verdict.shapes.append(lambda data: _correlation(data, action.by))
            case Malform():
                verdict.shapes.append(lambda data: _malformed(data, action))
            case _:
                raise CannotError("kproxy does not know this action")
        verdict.notes.append(note)

    def _wait(self, active: Active, verdict: Verdict, wait: Wait) -> None:
        """Make a frame wait; if several rules delay it, the longest delay counts."""
        if verdict.wait is None or verdict.wait.until < wait.until:
            if verdict.wait is not None:
                verdict.wait.done()
            verdict.wait = wait
            active.add_wait(wait)

    def _pace(self, active: Active, verdict: Verdict, pace: Pace) -> None:
        """Make a frame leave piece by piece; if several rules say how, the last one counts."""
        if verdict.pace is not None:
            verdict.pace.done()
        verdict.pace = pace
        active.add_wait(pace)

    def _answer(self, rule: Rule, action: Answer, turn: Turn, verdict: Verdict) -> None:
        """Answer a request with the body of the rule, instead of the broker."""
        message = self._definitions.response(turn.api_key, turn.api_version)
        if message is None:
            raise CannotError("kproxy does not know this version")
        try:
            values = body_values(action.body, message, turn.api_version)
        except JsonError as error:
            raise CannotError(str(error)) from None
        made = message, turn.api_version, values
        answer = synthesis.frame(turn.api_key, turn.api_version, turn.correlation_id, made, self._definitions)
        verdict.answer_instead(f"{rule.name}: answer", answer)

    # --- errors ------------------------------------------------------------------------------------------------------

    def _fault(self, action: Error) -> synthesis.Fault:
        return synthesis.Fault(action.code, action.at, self._learnt.knowledge.topic)

    def _split(self, action: Error, asked: Decoded) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        if asked.body is None or asked.message is None:
            return None, None
        return split(action.at, layout(asked.message, asked.version), asked.body, self._learnt.knowledge.topic)

    def _refuse(self, active: Active, action: Error, turn: Turn, verdict: Verdict, kept: _Kept) -> None:
        """Answer a request, or the elements of it that the rule selects, instead of the broker."""
        rule, asked = active.rule, kept.request
        if asked.body is None or asked.message is None or not readable(asked):
            raise CannotError("the request cannot be decoded")
        stays, goes = self._split(action, asked) if action.at else (None, asked.body)
        selected = Decoded(asked.message, asked.version, asked.header, goes)
        made = synthesis.answer(selected, turn.api_key, turn.api_version, self._fault(action), self._definitions)
        if stays is None or not turn.replies:
            answer = synthesis.frame(turn.api_key, turn.api_version, turn.correlation_id, made, self._definitions)
            verdict.answer_instead(f"{rule.name}: {action}", answer)
            return
        if verdict.frame is None:
            return
        before = decode_request(verdict.frame, self._definitions)
        if before.body is None:
            raise CannotError("the request cannot be decoded")
        left = self._split(action, before)[0]
        if left is not None:
            self._write(rule, Side.CLIENT, turn, verdict, before, left)
        kept.acting.append((active, made[2]))

    def _stamp(self, rule: Rule, action: Error, turn: Turn, verdict: Verdict) -> None:
        given = self._given(turn, verdict)
        assert given.body is not None  # noqa: S101 (`_given` has looked)
        assert given.message is not None  # noqa: S101
        new = synthesis.stamped(given.message, given.version, given.body, turn.api_key, self._fault(action))
        self._write(rule, Side.BROKER, turn, verdict, given, new)

    def _put_back(self, active: Active, turn: Turn, verdict: Verdict, elements: dict[str, Any]) -> None:
        """Add to the broker's response the elements that were taken out of the request, with their error."""
        try:
            given = self._given(turn, verdict)
            assert given.body is not None  # noqa: S101 (`_given` has looked)
            assert given.message is not None  # noqa: S101
            new = synthesis.merged(layout(given.message, given.version), given.body, elements)
            self._write(active.rule, Side.BROKER, turn, verdict, given, new)
        except (CannotError, WriteError) as error:
            text = (
                f"rule {active.rule.name} could not put its error into a response: {error}; "
                "the response lacks the elements that the rule refused"
            )
            self._warn(f"faults-{active.rule.name}-back", text, "")

    # --- other values ------------------------------------------------------------------------------------------------

    def _given(self, turn: Turn, verdict: Verdict) -> Decoded:
        """The decoded response. Raises CannotError."""
        if verdict.frame is None:
            raise CannotError("there is no response")
        given = decode_response(verdict.frame, turn.api_key, turn.api_version, self._definitions)
        if given.body is None or given.message is None or not readable(given):
            raise CannotError("the response cannot be decoded")
        return given

    def _decoded(self, side: Side, turn: Turn, verdict: Verdict) -> Decoded:
        """The decoded request or response. Raises CannotError."""
        if side is Side.BROKER:
            return self._given(turn, verdict)
        decoded = decode_request(verdict.frame or b"", self._definitions)
        if decoded.body is None or decoded.message is None or not readable(decoded):
            raise CannotError("the request cannot be decoded")
        return decoded

    def _edit(self, rule: Rule, action: Edit, turn: Turn, verdict: Verdict) -> None:
        decoded = self._decoded(action.side, turn, verdict)
        assert decoded.body is not None  # noqa: S101 (`_decoded` has looked)
        assert decoded.message is not None  # noqa: S101
        new = edited(decoded.message, decoded.version, decoded.body, action)
        if new is None:
            raise CannotError(f"there is nothing at {action.text}")
        self._write(rule, action.side, turn, verdict, decoded, new)

    def _tell(self, active: Active, action: Told, turn: Turn, verdict: Verdict, kept: _Kept) -> None:
        given = self._given(turn, verdict)
        assert given.body is not None  # noqa: S101 (`_given` has looked)
        new = told(action, given.body, Known(kept.request.body or {}, self._address, self._learnt.knowledge.topic))
        if new is None:  # the answer is about other topics, or says this already
            active.counter.hits -= 1
            return
        self._write(active.rule, Side.BROKER, turn, verdict, given, new)
        if isinstance(action, TopicId) and self._learns and verdict.frame is not None:
            self._learn(turn, verdict.frame)  # so that rules know the topic by the id that the client was told

    def _break_crcs(self, active: Active, action: Crc, turn: Turn, verdict: Verdict) -> bool:
        """Give a frame wrong CRCs; returns whether it has record batches."""
        decoded = self._decoded(action.side, turn, verdict)
        assert decoded.body is not None  # noqa: S101 (`_decoded` has looked)
        assert decoded.message is not None  # noqa: S101
        new = broken_crcs(layout(decoded.message, decoded.version), decoded.body)
        if new is None:
            active.counter.hits -= 1
            return False
        self._write(active.rule, action.side, turn, verdict, decoded, new)
        return True

    def _throttle(self, rule: Rule, action: Throttle, turn: Turn, verdict: Verdict) -> None:
        given = self._given(turn, verdict)
        assert given.body is not None  # noqa: S101 (`_given` has looked)
        if "throttleTimeMs" not in given.body:
            raise CannotError("this version has no throttle time")
        self._write(
            rule, Side.BROKER, turn, verdict, given, {**given.body, "throttleTimeMs": round(action.time * 1000)}
        )
        if action.mute:
            verdict.mute = Wait(rule.name, self._clock() + action.time)

    def _write(
        self, rule: Rule, side: Side, turn: Turn, verdict: Verdict, decoded: Decoded, values: dict[str, Any]
    ) -> None:
        """Replace the values in the verdict's frame. Raises WriteError; CannotError if the frame cannot be decoded."""
        if verdict.frame is None:
            raise CannotError("there is no frame")
        frame, changes = rewritten(verdict.frame, decoded, values, side, turn, rule.name, self._definitions)
        verdict.frame = frame
        verdict.changes += changes

    def _learn(self, turn: Turn, frame: bytes) -> None:
        decoded = decode_response(frame, turn.api_key, turn.api_version, self._definitions)
        learn_both(None, decoded, self._learnt.knowledge)


def _let_go(active: Active) -> int:
    held = [one for one in active.waits if not one.over]
    active.waits = []
    for wait in held:
        wait.release()
    return len(held)


def _correlation(data: bytes, by_number: int) -> bytes:
    if len(data) < 2 * SIZE:
        return data
    number = (int.from_bytes(data[SIZE : 2 * SIZE], "big") + by_number) & 0xFFFFFFFF
    return data[:SIZE] + number.to_bytes(SIZE, "big") + data[2 * SIZE :]


def _malformed(data: bytes, action: Malform) -> bytes:
    if action.how == "truncate":
        return data[: action.n]
    if action.how == "length":
        return (action.n & 0xFFFFFFFF).to_bytes(SIZE, "big") + data[SIZE:]
    if action.n >= len(data):
        return data
    return data[: action.n] + bytes([data[action.n] ^ 1]) + data[action.n + 1 :]
