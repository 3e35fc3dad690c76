"""One connection of the relay, without its sockets: bytes in, commands out.

Requests pass unchanged. Only the fixed start of each is read (length, API key, version, correlation id); if the
response will carry broker addresses, the correlation id is noted. Responses pass unchanged as well, except those to
noted requests:

    - *held*: the frame is sent only once it is whole, because its length stands in front and may change. Metadata and
      similar responses are held at any size (within a limit on what all connections hold together), Produce and Fetch
      up to `hold_max`;
    - *walked*: a longer Produce or Fetch response passes while a walker looks for its tagged fields, at the end of the
      frame; these are held and rewritten at equal length;
    - *watched*: a response of an unknown API or version passes unchanged. If it is short, it is first held and searched
      for broker addresses.

Responses that cannot be decoded (unknown version, malformed, not Kafka) pass unchanged, are counted and reported.
Responses that exceed a limit of the proxy (memory, time, ports) are withheld and the connection ends, so that the
client asks again and never learns an address that bypasses the proxy. No known broker address should reach a client: a
leaked address is reported, counted and recorded. While a noted request is unanswered, the first bytes of a response
wait until its correlation id has arrived.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import ClassVar, cast

from kproxy.core import rewrite
from kproxy.core.addresses import (
    TooMuchError,
    endpoints,
    names_controllers,
    tag_section,
)
from kproxy.core.commands import Changed, Command, End, Notice, ToBroker, ToClient
from kproxy.core.compiled import Passing
from kproxy.core.leaks import Address
from kproxy.core.passing import MAX_NOTED, SHORTEST_REQUEST
from kproxy.core.plans import STRAY, UNREAD, WATCHED, Plan, Watch, unchanged, unread_notice
from kproxy.core.protocols import no_frame, other_protocol
from kproxy.core.rewrite import Change
from kproxy.core.shared import Shared
from kproxy.core.walker import Walker
from kproxy.decoders.problems import DecodeError

_REQUEST_HEAD = struct.Struct(">ihhi")
_RESPONSE_HEAD = struct.Struct(">ii")
_LEAST_VIEW = 4096
"""Size in bytes below which pieces of a held frame are copied together into one buffer."""
TOO_MUCH_HELD = "no memory is left to hold it (--memory)"
_ADVICE = {
    (0, "TLS"): ": --tls-in auto lets clients speak TLS with kproxy",
    (1, "TLS"): ": --tls-out lets kproxy speak TLS with it",
}
"""Advice for the user, by (side, protocol found there); side 0 is the client, 1 the broker."""


class _Frame:
    """A response that is being held, walked or watched; `size` includes the length field."""

    __slots__ = ("got", "held", "pieces", "plan", "size", "walked", "walker")

    def __init__(self, plan: Plan | Watch, size: int, *, walked: bool) -> None:
        self.plan = plan
        self.size = size
        self.walked = walked
        self.walker = Walker(plan.walk, size) if isinstance(plan, Plan) else None
        self.pieces: list[memoryview | bytearray] = []
        self.got = 0
        self.held = 0
        """Bytes in `pieces`."""

    def keep(self, piece: memoryview, fed: int) -> None:
        """Keeps a piece of the frame; the read that brought it had `fed` bytes.

        A small piece is copied: a view would keep the memory of the whole read.
        """
        self.held += len(piece)
        pieces = self.pieces
        if len(piece) >= _LEAST_VIEW and 2 * len(piece) >= fed:
            pieces.append(piece)
        elif pieces and isinstance(pieces[-1], bytearray):
            pieces[-1] += piece
        else:
            pieces.append(bytearray(piece))

    def data(self) -> bytes:
        """The bytes kept so far."""
        return b"".join(self.pieces)


class Connection:
    """The state of a client's connection to a broker. `own_host` is the proxy's host that the client connected to."""

    records: ClassVar[bool] = False
    """Whether `Record` commands say which of the broker's bytes are recorded; if False, all of them are."""

    def __init__(self, shared: Shared, own_host: str) -> None:
        self.passing = Passing(shared.plans.made, unchanged)
        self._shared = shared
        self._own_host = own_host
        self._request_head = b""
        self._opaque = [False, False]
        self._first = [True, True]
        self._head = b""
        self._waits = False
        self._over = False
        """Whether bytes of the broker are discarded from now on."""
        self._forgot = False
        """Whether a noted request was dropped before its response came."""
        self._frame: _Frame | None = None

    @property
    def begun(self) -> bool:
        """Whether the client has sent a whole request, the broker a whole frame, or one side another protocol."""
        passing = self.passing
        return passing.requests > (passing.request_rest > 0) or not self._first[1] or any(self._opaque)

    @property
    def received(self) -> int:
        """A number that grows with each byte of the client's first request until that is complete."""
        return (1 << 31) - self.passing.request_rest if self.passing.requests else len(self._request_head)

    @property
    def idle(self) -> bool:
        """Whether both directions are between frames and no request seems to be in flight."""
        return (
            not self.passing.request_rest
            and not self._request_head
            and not self.passing.response_rest
            and not self._head
            and self._frame is None
            and self.passing.responses >= self.passing.requests
        )

    # --- from the client ---------------------------------------------------------------------------------------------

    def from_client(self, data: bytes) -> list[Command]:
        """Takes bytes from the client; returns the commands to carry out."""
        commands: list[Command] = [ToBroker(data)]
        if self._opaque[0] or self.passing.from_client_passes(data):
            return commands
        size = len(data)
        position = self.passing.request_rest
        if self._request_head:
            data = self._request_head + data
            size = len(data)
            self._request_head = b""
        while position + _REQUEST_HEAD.size <= size:
            length, api_key, version, correlation_id = _REQUEST_HEAD.unpack_from(data, position)
            if (length < 0 or self._first[0]) and self._bad_start(0, data[position : position + 8], length, commands):
                self.passing.request_rest = 0
                self.passing.requests_known = False
                return commands
            position += 4 + length
            self.passing.requests += 1
            if length < SHORTEST_REQUEST:
                continue
            plan = self._shared.plans.get(api_key, version)
            if (plan is not None or correlation_id in self.passing.noted) and not self._note(correlation_id, plan):
                commands.append(self._too_many_wait())
                return commands
        if position < size:
            self.passing.request_rest = 0
            self._request_head = data[position:]
            if self._first[0] and other_protocol(self._request_head):
                self._bad_start(0, self._request_head, 0, commands)
        else:
            self.passing.request_rest = position - size
        self.passing.requests_known = not (self._first[0] or self._opaque[0] or self._request_head)
        return commands

    def _note(self, correlation_id: int, plan: Plan | Watch | None) -> bool:
        """Notes a request, because its response needs treatment; returns False if MAX_NOTED requests wait already.

        If the oldest request waiting has its addresses in tagged fields (Produce, Fetch), it is dropped in favour of
        the new one, because Produce with acks=0 is never answered. From then on every response without a noted request
        is searched (STRAY).
        """
        passing = self.passing
        if passing.waiting >= MAX_NOTED:
            oldest = next(iter(passing.noted))
            plan_of_oldest = passing.take(oldest)
            if isinstance(plan_of_oldest, Plan) and plan_of_oldest.whole:
                return False
            self._forgot = True
            passing.responses_known = False
        passing.note(correlation_id, plan)
        return True

    def _too_many_wait(self) -> End:
        self._over = True
        self._shared.counters.withheld += 1
        text = f"left {MAX_NOTED} requests unanswered whose responses name brokers; kproxy ends the connection"
        return End("unanswered", text)

    def _bad_start(self, side: int, start: bytes, length: int, commands: list[Command]) -> bool:
        """Whether `start` does not begin a Kafka frame; if so, all further bytes of this direction pass unread."""
        named = no_frame(start, length, first=self._first[side])
        if named is None:
            self._first[side] = False
            return False
        self._opaque[side] = True
        if side == 0:
            self._request_head = b""
        advice = _ADVICE.get((side, named), "")
        commands.append(Notice(f"not-kafka-{side}-{named}", f"sends {named}, not Kafka's plain protocol{advice}"))
        return True

    def _unseen(self, side: int) -> bool:
        return self._opaque[side]

    def _ends(self) -> bool:
        return self._over

    # --- from the broker ---------------------------------------------------------------------------------------------

    def from_broker(self, data: bytes) -> list[Command]:
        """Takes bytes from the broker; returns the commands to carry out."""
        if self._ends():
            return []
        if self._unseen(1) or self.passing.from_broker_passes(data):
            return [ToClient(data)]
        commands: list[Command] = []
        carried = len(self._head)
        if carried:
            data = self._head + data
            self._head = b""
        view, size = memoryview(data), len(data)
        position, start = 0, 0 if self._waits else carried
        resumed = carried > 0
        while position < size:
            if self.passing.response_rest:
                taken = min(self.passing.response_rest, size - position)
                self.passing.response_rest -= taken
                position += taken
            elif self._frame is not None:
                start = position = self._hold(self._frame, view, position, carried, commands)
                if self._ends():
                    return commands
            else:
                if not resumed:
                    self._waits = bool(self.passing.noted)
                resumed = False
                position = self._response(data, position, commands)
                if self._unseen(1):
                    break
                if self._head or self._frame is not None:
                    _forward(commands, view, start, position)
                    start = max(start, position)
                if self._head:
                    start = size if self._waits else start
                    break
        _forward(commands, view, start, size)
        self.passing.responses_known = not (
            self._forgot or self._first[1] or self._opaque[1] or self._head or self._frame is not None
        )
        return commands

    def _response(self, data: bytes, position: int, commands: list[Command]) -> int:
        """Reads the start of a response and decides how to treat the frame; returns the position to go on from."""
        wanted = _RESPONSE_HEAD.size if self._waits else 4
        head = data[position : position + wanted]
        length = int.from_bytes(head[:4], "big", signed=True) if len(head) >= 4 else 0
        if len(head) < 4 and not (self._first[1] and other_protocol(head)):
            self._head = head
            return position
        if self._bad_start(1, head, length, commands):
            return position
        if len(head) < wanted and not 0 <= length < 4 <= len(head):  # a frame this short has no correlation id
            self._head = head
            return position
        self.passing.responses += 1
        plan = None
        if self._waits and length >= 4:
            plan = self._answered(int.from_bytes(head[4:], "big", signed=True))
        if plan is None and self._forgot:
            plan = STRAY
        if plan is None or (isinstance(plan, Watch) and not self._watched(plan, length, commands)):
            self.passing.response_rest = length
            return position + 4
        walked = isinstance(plan, Plan) and not plan.whole and length + 4 > self._shared.hold_max
        if walked:
            self._shared.counters.walked += 1
        else:
            self._shared.counters.held += 1
        self._frame = _Frame(plan, length + 4, walked=walked)
        return position

    def _answered(self, correlation_id: int) -> Plan | Watch | None:
        """Removes the oldest noted request with this correlation id; returns its plan."""
        return cast("Plan | Watch | None", self.passing.take(correlation_id))

    def _watched(self, watch: Watch, length: int, commands: list[Command]) -> bool:
        """Reports a watched response to the user; returns whether the response is short enough to be searched."""
        if watch.topic.startswith(UNREAD):
            self._shared.counters.unread += 1
        if watch.topic:
            commands.append(Notice(watch.topic, watch.text, watch.once))
        return length <= WATCHED

    def _unread(self, name: str, reason: str, commands: list[Command]) -> None:
        self._shared.counters.unread += 1
        commands.append(Notice(*unread_notice(name, reason)))

    def _hold(self, frame: _Frame, view: memoryview, position: int, carried: int, commands: list[Command]) -> int:
        """Takes the part of the frame that is in `view` from `position` on; returns the position where that part ends.

        The first `carried` bytes of the view came with an earlier read.
        """
        end = min(len(view), position + frame.size - frame.got)
        began = position
        changes: list[Change] = []
        leaked, withheld = None, ""
        try:
            self._take(frame, view[position:end], len(view), commands)
            if self._frame is None:
                self.passing.response_rest = frame.size - frame.got
            elif frame.got == frame.size:
                self._frame = None
                changes, leaked = self._finish(frame, commands)
        except _WithheldError as error:
            withheld = str(error)
            self._withhold(frame, withheld, commands)
        if changes or leaked or withheld:
            commands.append(Changed(max(began - carried, 0), end - carried, tuple(changes), leaked, withheld))
        return end

    def _withhold(self, frame: _Frame, reason: str, commands: list[Command]) -> None:
        self._shared.budget.give(frame.held)
        self._frame = None
        self._over = True
        self.passing.response_rest = 0
        self.passing.responses_known = False
        self._shared.counters.withheld += 1
        name = frame.plan.name
        text = (
            f"sent a response to {name} that kproxy withholds, because addresses in it could not be replaced: {reason}"
        )
        commands.append(End(f"withheld-{name}", f"{text}; kproxy ends the connection"))

    def _take(self, frame: _Frame, piece: memoryview, fed: int, commands: list[Command]) -> None:
        """Takes the next piece of the frame: keeps it, or sends it on if it lies before a walked frame's tagged fields.

        `fed` is the size in bytes of the read that brought the piece.
        """
        start = frame.got
        frame.got += len(piece)
        try:
            found = frame.walker is not None and frame.walker.feed(piece)
        except DecodeError as error:
            self._give_up(frame, piece, error.message, commands)
            return
        keep = piece
        if not frame.walked and not self._shared.budget.take(len(piece)):
            self._walk_on(frame, piece, commands)
            if self._frame is None:
                return
        elif not frame.walked:
            frame.keep(piece, fed)
            return
        at = frame.walker.at if found and frame.walker is not None else None
        border = len(piece) if at is None else max(0, min(at - start, len(piece)))
        if border:
            commands.append(ToClient(piece[:border]))
        keep = piece[border:]
        if keep and not self._shared.budget.take(len(keep)):
            raise _WithheldError(TOO_MUCH_HELD)
        if keep:
            frame.keep(keep, fed)

    def _walk_on(self, frame: _Frame, piece: memoryview, commands: list[Command]) -> None:
        """When the budget is used up, switches from holding to walking, which keeps only the frame's end in memory.

        Raises _WithheldError if the frame must be held whole.
        """
        plan = frame.plan
        if isinstance(plan, Watch):
            self._release(frame, commands)
            commands.append(ToClient(piece))
            self._frame = None
            self._unsearched(plan.name, commands)
            return
        if plan.whole or frame.walker is None:
            raise _WithheldError(TOO_MUCH_HELD)
        at = frame.walker.at
        data = memoryview(frame.data())
        border = len(data) if at is None else min(at, len(data))
        self._shared.budget.give(border)
        if border:
            commands.append(ToClient(data[:border]))
        frame.pieces, frame.held = [bytearray(data[border:])], len(data) - border
        frame.walked = True
        self._shared.counters.walked += 1

    def _give_up(self, frame: _Frame, piece: memoryview, reason: str, commands: list[Command]) -> None:
        self._release(frame, commands)
        commands.append(ToClient(piece))
        self._frame = None
        self._unread(frame.plan.name, reason, commands)

    def _release(self, frame: _Frame, commands: list[Command]) -> None:
        """Sends the kept bytes of the frame unchanged."""
        self._shared.budget.give(frame.held)
        commands += [ToClient(kept) for kept in frame.pieces]
        frame.pieces, frame.held = [], 0

    def _finish(self, frame: _Frame, commands: list[Command]) -> tuple[list[Change], Address | None]:
        """Rewrites a frame that is now whole and sends it.

        Returns (changes, the broker address that leaked or None).
        """
        plan, walker = frame.plan, frame.walker
        if isinstance(plan, Watch) or walker is None:
            data = frame.data()
            if plan is STRAY and self._shared.book.known.search(data).address is not None:
                raise _WithheldError(
                    f"its request is no longer known, because {MAX_NOTED} other requests wait for responses"
                )
            self._release(frame, commands)
            return [], self._check(plan, data, commands)
        at = walker.at
        if at is None:
            return self._as_it_is(frame, "it ends early", commands)
        if plan.tag is not None and at == frame.size - 1 and frame.pieces[-1][-1] == 0:
            self._release(frame, commands)
            return [], None
        try:
            new, changes = self._rewritten(plan, frame.data(), at, walked=frame.walked)
        except DecodeError as error:
            return self._as_it_is(frame, error.message, commands)
        except TooMuchError as error:
            raise _WithheldError(str(error)) from None
        except OSError as error:
            raise _WithheldError(error.strerror or str(error)) from None
        if not changes:
            self._release(frame, commands)
        else:
            self._shared.counters.rewritten += 1
            self._shared.budget.give(frame.held)
            commands.append(ToClient(new))
        return changes, self._check(plan, new if frame.walked or plan.tag is None else new[at:], commands)

    def _as_it_is(self, frame: _Frame, reason: str, commands: list[Command]) -> tuple[list[Change], Address | None]:
        data = frame.data()
        self._release(frame, commands)
        self._unread(frame.plan.name, reason, commands)
        return [], self._check(frame.plan, data, commands)

    def _rewritten(self, plan: Plan, data: bytes, at: int, *, walked: bool) -> tuple[bytes, list[Change]]:
        """Returns (the kept bytes with the proxy's addresses in them, changes).

        `at` is the offset in `data` where the addresses begin. Raises DecodeError, TooMuchError, _WithheldError, and
        OSError from `Book.ours`.
        """
        if walked:
            return self._section(plan, data, 0, same_length=True)
        if plan.tag is not None:
            fields, changes = self._section(plan, data, at, same_length=False)
            return rewrite.with_size(data[:at] + fields), changes
        controllers = names_controllers(plan.message, plan.version, plan.header_version, data)
        found = endpoints(plan.message, plan.version, data, at)
        ours = partial(self._ours, controller=controllers)
        replacements, changes = rewrite.splices(found, ours, flexible=plan.flexible)
        return rewrite.with_size(rewrite.spliced(data, 0, len(data), replacements)), changes

    def _section(self, plan: Plan, data: bytes, at: int, *, same_length: bool) -> tuple[bytes, list[Change]]:
        """Rewrites the tagged fields from offset `at` on; returns (their bytes with the proxy's addresses, changes)."""
        tags = tag_section(plan.message, plan.version, data, at)
        replacements, changes = rewrite.splices(tags.endpoints, self._ours, flexible=True)
        new = rewrite.section(data, tags, replacements) if changes else data[at:]
        if same_length and changes:
            fitting = rewrite.padded(new, tags)
            if fitting is None and plan.tag is not None:
                self._shared.counters.retagged += 1
                name = tags.endpoints[0].path.partition("[")[0]
                changes = [Change(name, f"tag {plan.tag}", "blanked under an unused tag, for lack of space")]
                fitting = rewrite.retagged(data, tags, plan.tag)
            if fitting is None:
                raise _WithheldError("the response has no room for kproxy's addresses, and no tag is free")
            new = fitting
        return new, changes

    def _ours(self, node_id: int, host: str, port: int, *, controller: bool = False) -> Address:
        return self._shared.book.ours(node_id, host, port, self._own_host, controller=controller)

    def _unsearched(self, name: str, commands: list[Command]) -> None:
        self._shared.counters.unsearched += 1
        text = f"sent a long response to {name}: only a part of it was searched for brokers' own addresses"
        commands.append(Notice(f"unsearched-{name}", text))

    def _check(self, plan: Plan | Watch, data: bytes, commands: list[Command]) -> Address | None:
        """Searches bytes for the client for a broker's own address.

        Reports and returns the address, None if there is none.
        """
        found = self._shared.book.known.search(data)
        if not found.whole:
            self._unsearched(plan.name, commands)
        leaked = found.address
        if leaked is not None:
            self._shared.counters.leaked += 1
            host, port = leaked
            text = f"sent a response to {plan.name} that carries a broker's own address {host}:{port} to a client"
            commands.append(Notice(f"leaked-{plan.name}-{host}:{port}", text))
        return leaked

    def client_ended(self) -> list[Command]:
        """Called when the client has sent FIN."""
        return []

    def broker_ended(self) -> list[Command]:
        """Called when the broker has sent FIN: an incomplete frame is sent on unchanged."""
        commands: list[Command] = []
        if self._frame is not None:
            self._release(self._frame, commands)
            self._frame = None
        elif self._head and self._waits:
            commands.append(ToClient(self._head))
        self._head = b""
        self._opaque[1] = True
        self.passing.responses_known = False
        return commands

    def dropped(self) -> None:
        """Called when the connection is gone; gives the memory of held bytes back to the budget."""
        if self._frame is not None:
            self._shared.budget.give(self._frame.held)
            self._frame = None


class _WithheldError(Exception):
    """A response must not reach the client; the text gives the reason."""


def _forward(commands: list[Command], view: memoryview, start: int, end: int) -> None:
    if end > start:
        commands.append(ToClient(view[start:end]))
