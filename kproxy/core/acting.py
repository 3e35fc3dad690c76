"""A connection whose frames are offered to actors: addons and rules that change, hold, answer or drop them.

Frames of the APIs that an actor names are held until they are whole and then offered; all other bytes pass at once, by
the fast path (`kproxy.core.passing`) while nothing waits and no actor wants a response in flight.
Bytes go through the actors first and then through `Connection`, so that addresses are rewritten after the actors'
changes. `Verdict.shapes`, which may make a frame invalid, are applied last.

Responses leave in the order of their requests, as those of a broker do: an answer that kproxy makes itself waits for
the responses to earlier requests, and a delayed frame delays all frames after it. When one side ends its half of the
connection, all waits end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from kproxy.core.commands import Changed, Command, Cut, End, Record, ToBroker, ToClient
from kproxy.core.connection import Connection
from kproxy.core.cutting import SIZE, Cutter, Piece
from kproxy.core.lane import Lane
from kproxy.core.passing import MAX_NOTED, TO_ACKS
from kproxy.core.plans import plan_key
from kproxy.core.shared import Shared
from kproxy.core.verdict import HOLD_SECONDS, Asking, Ending, Parties, Turn, Verdict, Wait, made_comment
from kproxy.decoders.conversation.acks import way
from kproxy.decoders.conversation.compiled import wants_no_reply
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.stream import Side

_REQUEST = struct.Struct(">hhi")
_RESPONSE = struct.Struct(">i")
_FEW = 64
"""Maximum number of requests in flight with which the fast path may resume; the check after each slow read goes through
all of them.
"""
_MOST_PLANS = 10_000

_Lines = tuple[Sequence[str], Sequence[str]]
"""Two groups of lines of a packet comment: those before and those after a verdict's own lines."""


class Actors(Protocol):
    """The interface to a relay's actors and rules that `ActedConnection` needs.

    `plans` is `Passing.plans` of all connections. The implementation empties it whenever results of `act_on` change.
    """

    plans: dict[int, Any]

    @property
    def definitions(self) -> Definitions: ...

    def act_on(self, side: Side, api_key: int) -> bool:
        """Whether an actor wants frames of this API that `side` sends, so that they must be held."""

    def offer(self, side: Side, turn: Turn, verdict: Verdict) -> None:
        """Decides on the whole frame `verdict.frame`, which `side` sends, by changing the verdict. Never raises."""

    def passed(self, side: Side, api_key: int, api_version: int, reason: str) -> None:
        """Called when a frame could not be held and was forwarded without passing the actors; `reason` says why."""


class ActedConnection(Connection):
    """A connection whose frames are offered to actors; `clock` gives the time in seconds.

    Its `Record` commands say what is recorded. `wake`, once set, is called if `tick` should be called at once.
    """

    records = True

    def __init__(
        self, shared: Shared, own_host: str, actors: Actors, parties: Parties, clock: Callable[[], float]
    ) -> None:
        super().__init__(shared, own_host)
        self._actors = actors
        self.passing.plans = actors.plans
        self.passing.stopped = True
        self._parties = parties
        self._clock = clock
        self._asked: dict[int, list[Turn]] = {}
        """The requests that the broker may still answer, by correlation id, oldest first."""
        self._order: dict[int, Turn] = {}
        """The requests whose answer is still to be sent, by number, oldest first; later answers wait for these."""
        self._open = 0
        """How many requests are in `_asked`, at most MAX_NOTED."""
        self._count = 0
        self._answers = 0
        """How many of `_order` have an answer of kproxy's own, which waits for earlier responses."""
        self._early: list[Command] = []
        """kproxy's own answers that must be sent before the response whose first bytes have just arrived."""
        self._swapped: list[tuple[list[Command], Wait]] = []
        """Responses held back until the next response has been sent, each with the wait that limits the delay."""
        self._over_now = False
        """Whether an actor has ended the connection."""
        self.vanished = False
        """Whether the connection is a black hole: nothing from one side reaches the other, not even its end."""
        self._severed = False
        """Whether the next `tick` ends the connection by RST."""
        self._up = Cutter(_REQUEST.size, self._request_wanted, self._request_passed, shared)
        self._down = Cutter(_RESPONSE.size, self._response_wanted, self._response_passed, shared)
        self._to_broker = Lane(shared.budget, clock)
        self._to_client = Lane(shared.budget, clock)
        self.wake: Callable[[], None] | None = None

    @property
    def idle(self) -> bool:
        if self.vanished:
            return True
        waiting = self._answers or self._swapped or not self._to_broker.empty or not self._to_client.empty
        return super().idle and self._up.idle and self._down.idle and not waiting

    @property
    def due(self) -> float | None:
        """The time at which `tick` should be called; None if nothing waits."""
        if self._severed:
            return 0.0
        times = [self._to_broker.next, self._to_client.next, *(wait.until for _, wait in self._swapped)]
        return min((one for one in times if one is not None), default=None)

    def tick(self) -> list[Command]:
        """Send everything whose wait is over."""
        if self._severed:
            self._severed = False
            return [Cut(True)]
        commands = [*self._to_broker.due(), *self._to_client.due()]
        now = self._clock()
        if any(wait.until <= now for _, wait in self._swapped):
            commands += self._unswap()
        return commands

    def vanish(self) -> None:
        """Turn the connection into a black hole: nothing from one side reaches the other any more."""
        self._leave_fast_path()
        self._end_waits()
        self.vanished = True

    def sever(self) -> None:
        """End the connection by RST at the next `tick`."""
        self._leave_fast_path()
        self._end_waits()
        self._over_now = self._severed = True
        self._woken()

    # --- the fast path -----------------------------------------------------------------------------------------------

    def _take_fast_path(self) -> None:
        """Let further bytes take the fast path, if nothing waits and no actor wants a response in flight."""
        ended = self._over_now or self.vanished
        if ended or self._answers or self._swapped or not (self._to_broker.empty and self._to_client.empty):
            return
        alike = len(self._asked) == len(self._order) == self._open <= _FEW
        known = self.passing.requests_known and self.passing.responses_known
        if not (alike and known and self._up.passes and self._down.passes):
            return
        plans = self._actors.plans
        keys = [plan_key(turn.api_key, turn.api_version) for turn in self._order.values() if not turn.wanted]
        if len(keys) < self._open or any(key not in plans for key in keys):
            return
        self.passing.in_flight = {
            turn.correlation_id: (key, b"") for turn, key in zip(self._order.values(), keys, strict=True)
        }
        self.passing.stopped = False
        self._order.clear()
        self._asked.clear()
        self._open = 0
        self._up.resume(0)
        self._down.resume(0)

    def _leave_fast_path(self) -> None:
        """Take over what passed by the fast path: the requests in flight, and how much of a frame is still to come."""
        passing = self.passing
        in_flight = passing.in_flight
        if in_flight is None:
            return
        passing.in_flight, passing.stopped = None, True
        self._up.resume(passing.request_rest)
        self._down.resume(passing.response_rest)
        definitions = self._actors.definitions
        for correlation_id, (key, start) in in_flight.items():
            api_key, version = divmod(key, 1 << 16)
            replies = not start or not wants_no_reply(start, way(definitions, api_key, version))
            self._expect(Turn(api_key, version, correlation_id, self._parties, replies))

    def _allow(self, api_key: int, version: int) -> None:
        """Let frames of an API that no actor wants take the fast path."""
        plans, key = self._actors.plans, plan_key(api_key, version)
        if key in plans or version not in self._actors.definitions.versions(api_key):
            return
        if not self._actors.act_on(Side.BROKER, api_key):
            if len(plans) >= _MOST_PLANS:
                plans.clear()
            plans[key] = self._shared.plans.get(api_key, version)

    # --- requests ----------------------------------------------------------------------------------------------------

    def from_client(self, data: bytes) -> list[Command]:
        if self.vanished:
            return []
        if self.passing.in_flight is not None and self.passing.from_client_passes(data):
            return [ToBroker(data)]
        self._leave_fast_path()
        commands: list[Command] = []
        for piece in self._up.feed(data):
            if self._over_now or self.vanished:
                break
            if piece.turn is None:
                commands += self._to_broker.put(super().from_client(piece.data))
            else:
                commands += self._decide_request(piece.turn, piece.data)
        self._take_fast_path()
        return commands

    def _decide_request(self, turn: Turn, frame: bytes) -> list[Command]:
        verdict = Verdict(frame)
        self._actors.offer(Side.CLIENT, turn, verdict)
        self._know(verdict)
        if verdict.final:
            verdict.end_waits()
        if verdict.vanishes:
            verdict.frame = None
            self.vanish()
            return [Record(0, frame, verdict.comment("broker"))]
        if verdict.ending is not None:
            verdict.frame = None
            self._over_now = True
            record = Record(0, frame, verdict.comment("broker"))
            return [*self._to_broker.end(), record, Cut(verdict.ending.reset, verdict.ending.unclean)]
        if verdict.frame is None:
            return [Record(0, frame, verdict.comment("broker")), *self._answer_instead(turn, verdict)]
        copies = [turn, *(self._another(turn) for _ in range(verdict.copies - 1))]
        comment = verdict.comment("broker")
        found: list[Command] = []
        for _ in copies:
            found += [
                ToBroker(verdict.shaped(bytes(one.data)), comment) if isinstance(one, ToBroker) else one
                for one in super().from_client(verdict.frame)
            ]
        if isinstance(verdict.wait, Asking):
            verdict.wait.frame = verdict.frame
            verdict.wait.carry_out = partial(self._request_decided, turn, frame, found)
        commands = self._to_broker.put(found, verdict.wait, verdict.pace)
        if verdict.mute is not None:
            commands += self._to_broker.put([], verdict.mute)
        return commands

    def _request_decided(self, turn: Turn, frame: bytes, found: Sequence[Command], decided: Verdict) -> list[Command]:
        """Commands for a request that waited for a decision; `found` are the commands that forward it if there is no
        decision.
        """
        record = Record(0, frame, decided.comment("broker"))
        if decided.ending is not None:
            self._over_now = True
            return [record, Cut(decided.ending.reset, decided.ending.unclean)]
        if decided.frame is None:
            return [record, *self._answer_instead(turn, decided)]
        changed = ToBroker(decided.frame, decided.comment("broker"))
        return [changed if isinstance(one, ToBroker) else one for one in found]

    def _answer_instead(self, turn: Turn, verdict: Verdict) -> list[Command]:
        """Commands for a request that the broker never sees: its verdict's answer, once earlier responses have left.

        If the broker has answered the request before kproxy had received it whole, kproxy sends no answer of its own.
        """
        self._forget(turn)
        if verdict.answer is None or turn.number not in self._order:
            self._drop_out(turn)
            return []
        turn.answer = verdict.answer, tuple(verdict.reasons)
        self._answers += 1
        if self._answers > MAX_NOTED:
            self._over_now = True
            text = f"left an earlier request unanswered while {MAX_NOTED} answers of rules or actors waited for it"
            return [End("unanswered", f"{text}; kproxy ends the connection")]
        return self._answer()

    def _another(self, turn: Turn) -> Turn:
        """Makes a turn for one more copy of a request that is sent several times, and notes that the broker will answer
        it.
        """
        copy = Turn(turn.api_key, turn.api_version, turn.correlation_id, self._parties, turn.replies)
        self._expect(copy)
        return copy

    def _expect(self, turn: Turn) -> None:
        """Note that the broker will answer this request."""
        if not turn.replies:
            return
        self._count = turn.number = self._count + 1
        self._order[turn.number] = turn
        self._asked.setdefault(turn.correlation_id, []).append(turn)
        self._open += 1
        if self._open > MAX_NOTED:
            oldest = next(iter(self._asked.values()))[0]
            self._forget(oldest)
            self._drop_out(oldest)

    def _forget(self, turn: Turn) -> None:
        """Remove a request from those that the broker may still answer."""
        waiting = self._asked.get(turn.correlation_id, [])
        if turn in waiting:
            waiting.remove(turn)
            self._open -= 1
            if not waiting:
                del self._asked[turn.correlation_id]

    def _drop_out(self, turn: Turn) -> None:
        """Remove this request from the order of answers, so that later answers no longer wait for its answer."""
        if self._order.pop(turn.number, None) is not None and turn.answer is not None:
            self._answers -= 1

    def _request_wanted(self, start: bytes, size: int) -> Turn | int | None:
        api_key, version, correlation_id = _REQUEST.unpack_from(start, SIZE)
        definitions = self._actors.definitions
        if not definitions.versions(api_key):
            return None  # a SASL token without a header, or an API that Kafka does not have
        replies = True
        if api_key == api_keys.PRODUCE:
            enough = min(size, TO_ACKS)
            if len(start) < enough:
                return enough
            replies = not wants_no_reply(start, way(definitions, api_key, version))
        turn = Turn(api_key, version, correlation_id, self._parties, replies)
        self._expect(turn)
        if self._actors.act_on(Side.CLIENT, api_key):
            return turn
        self._allow(api_key, version)
        return None

    # --- responses ---------------------------------------------------------------------------------------------------

    def from_broker(self, data: bytes) -> list[Command]:
        if self.vanished:
            return []
        if self.passing.in_flight is not None and self.passing.from_broker_passes(data):
            return [Record(1, data), ToClient(data)]
        self._leave_fast_path()
        commands: list[Command] = []
        self._down.split = bool(self._answers or self._swapped)
        for piece in self._down.feed(data):
            if self._over_now:
                break
            if self._early:
                commands += self._early
                self._early = []
            commands += self._passing(piece) if piece.turn is None else self._decide_response(piece.turn, piece.data)
            if self._answers:
                commands += self._answer()
        self._take_fast_path()
        return commands

    def _passing(self, piece: Piece) -> list[Command]:
        """Commands for bytes of the broker that are not offered to actors."""
        inner = super().from_broker(piece.data)
        changed = [one for one in inner if isinstance(one, Changed)]
        records = list(_records(piece.data, changed))
        rest = [one for one in inner if not isinstance(one, Changed)]
        behind = self._down.idle and self._swapped
        return [*records, *self._to_client.put(rest), *(self._unswap() if behind else ())]

    def _decide_response(self, turn: Turn, frame: bytes) -> list[Command]:
        verdict = Verdict(frame)
        self._actors.offer(Side.BROKER, turn, verdict)
        commands: list[Command] = []
        sent: list[bytes] = []
        faults: list[str] = []
        for one in super().from_broker(frame if verdict.frame is None else verdict.frame):
            if isinstance(one, ToClient):
                sent.append(bytes(one.data))
            elif isinstance(one, Changed):
                verdict.changes += one.changes
                if one.leaked is not None or one.withheld:
                    faults.append(Changed(0, 0, (), one.leaked, one.withheld).comment)
            else:
                commands.append(one)
        data = b"".join(sent)
        if any(isinstance(one, End) for one in commands):  # addresses could not be replaced
            verdict.end_waits()
            return [_record(frame, verdict, ((), faults)), *self._to_client.put(commands)]
        if isinstance(verdict.wait, Asking):
            verdict.wait.frame = data
            verdict.wait.carry_out = partial(self._response_decided, frame, commands, ((), faults))
            return self._leave(verdict, data, [_record(frame, verdict, ((), faults)), *commands])
        return [_record(frame, verdict, ((), faults)), *self._leave(verdict, data, commands)]

    def _response_decided(
        self, frame: bytes, others: Sequence[Command], lines: _Lines, decided: Verdict
    ) -> list[Command]:
        """Commands for a response that waited for a decision; `others` are sent with it."""
        found: list[Command] = [_record(frame, decided, lines), *others]
        if decided.ending is not None:
            self._over_now = True
            return found + _ended(decided.ending, decided.frame or b"")
        if decided.frame is not None:
            found += [ToClient(decided.frame) for _ in range(decided.copies)]
        return found

    def _answer(self) -> list[Command]:
        """Send kproxy's own answers that no earlier response holds back."""
        commands: list[Command] = []
        while self._answers and self._down.idle and not self._over_now:
            first = next(iter(self._order.values()))
            if first.answer is None:
                break
            commands += self._send_own_answer(first)
        return commands

    def _send_own_answer(self, turn: Turn) -> list[Command]:
        """Commands that send kproxy's own answer, which is offered to the actors like one of a broker."""
        assert turn.answer is not None  # noqa: S101 (callers have looked)
        self._drop_out(turn)
        frame, reasons = turn.answer
        verdict = Verdict(frame)
        if turn.wanted or self._actors.act_on(Side.BROKER, turn.api_key):
            self._actors.offer(Side.BROKER, turn, verdict)
        lines = (made_comment(reasons),), ()
        if isinstance(verdict.wait, Asking) and verdict.frame is not None:
            verdict.wait.frame = verdict.frame
            verdict.wait.carry_out = partial(self._response_decided, frame, (), lines)
            return self._leave(verdict, verdict.frame, [_record(frame, verdict, lines)])
        return [_record(frame, verdict, lines), *self._leave(verdict, verdict.frame or b"")]

    def _leave(self, verdict: Verdict, data: bytes, others: Sequence[Command] = ()) -> list[Command]:
        """Commands that send a response to the client as a verdict says; `others` are sent with it."""
        self._know(verdict)
        batch: list[Command] = [*others]
        if verdict.frame is not None and verdict.ending is None:
            batch += [ToClient(verdict.shaped(data)) for _ in range(verdict.copies)]
        if verdict.ending is not None:
            batch += _ended(verdict.ending, verdict.shaped(data))
            self._over_now = True
        commands: list[Command] = []
        if verdict.mute is not None:
            commands += self._to_broker.put([], verdict.mute)
        if verdict.behind and verdict.ending is None:
            for wait in filter(None, (verdict.wait, verdict.pace)):
                wait.done()  # the next answer decides when this one leaves, the waits do not
            until = Wait("swap", self._clock() + HOLD_SECONDS)
            self._swapped.append((batch, until))
            self._down.split = True
            return commands
        commands += self._to_client.put(batch, verdict.wait, verdict.pace)
        return commands + (self._unswap() if self._swapped else [])

    def _unswap(self) -> list[Command]:
        swapped, self._swapped = self._swapped, []
        return [command for batch, _ in swapped for command in self._to_client.put(batch)]

    def _know(self, verdict: Verdict) -> None:
        """Wake this connection when a wait of this verdict is released."""
        for wait in verdict.waits:
            wait.wake = self._woken

    def _woken(self) -> None:
        if self.wake is not None:
            self.wake()

    def _response_wanted(self, start: bytes, size: int) -> Turn | None:
        del size
        (correlation_id,) = _RESPONSE.unpack_from(start, SIZE)
        waiting = self._asked.get(correlation_id)
        if waiting is None:
            return None
        turn = waiting[0]
        self._forget(turn)
        if turn.number in self._order:
            # A broker answers in order: it will never answer an older request that has no answer by now.
            while (first := next(iter(self._order.values()))) is not turn:
                if first.answer is not None:
                    self._early += self._send_own_answer(first)
                else:
                    self._drop_out(first)
            self._drop_out(turn)
        return turn if turn.wanted or self._actors.act_on(Side.BROKER, turn.api_key) else None

    # --- ends --------------------------------------------------------------------------------------------------------

    def client_ended(self) -> list[Command]:
        if self.vanished:
            return []
        self._leave_fast_path()
        waiting = self._up.release()
        commands = self._to_broker.end()
        return commands + (super().from_client(waiting) if waiting else [])

    def broker_ended(self) -> list[Command]:
        if self.vanished:
            return []
        self._leave_fast_path()
        waiting = self._down.release()
        commands = self._to_client.end()
        if waiting:
            commands += self._passing(Piece(waiting, 0))
        for turn in [one for one in self._order.values() if one.answer is not None]:
            commands += self._send_own_answer(turn)
        commands += [*self._unswap(), *self._to_client.end()]
        return [*commands, *super().broker_ended()]

    def dropped(self) -> None:
        self._leave_fast_path()
        self._end_waits()
        super().dropped()

    def _end_waits(self) -> None:
        """Discard everything that waits."""
        self._up.release()
        self._down.release()
        self._to_broker.end()
        self._to_client.end()
        self._swapped.clear()

    def _request_passed(self, turn: Turn, reason: str) -> None:
        self._actors.passed(Side.CLIENT, turn.api_key, turn.api_version, reason)

    def _response_passed(self, turn: Turn, reason: str) -> None:
        self._actors.passed(Side.BROKER, turn.api_key, turn.api_version, reason)


def _record(frame: bytes, verdict: Verdict, lines: _Lines) -> Record:
    """The record of an unchanged response; its comment has the verdict's lines between those of `lines`."""
    before, after = lines
    comment = verdict.comment("client")
    return Record(1, frame, "\n".join([*before, *([comment] if comment else ()), *after]) or None)


def _ended(ending: Ending, data: bytes) -> list[Command]:
    return [*([ToClient(data[: ending.sent])] if ending.sent else ()), Cut(ending.reset, ending.unclean)]


def _records(data: bytes, changed: Sequence[Changed]) -> Iterator[Record]:
    """Records of the broker's bytes; the record with the last bytes of a changed frame has the frame's comment."""
    at = 0
    for one in changed:
        if one.start > at:
            yield Record(1, data[at : one.start])
        yield Record(1, data[max(at, one.start) : one.end], one.comment)
        at = one.end
    if at < len(data):
        yield Record(1, data[at:])
