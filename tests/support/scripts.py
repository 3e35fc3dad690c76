"""Scripted conversations on one connection, as events of a capture that can be cut into any batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Any

from kproxy.decoders.conversation.conversation import Conversation
from kproxy.decoders.conversation.limits import Limits
from kproxy.decoders.conversation.numbering import Numbering
from kproxy.decoders.exchange import Exchange, Frame, Health, StreamProblem
from kproxy.decoders.schema import Definitions, definitions
from kproxy.decoders.stream import End, Event, Gap, Run, Side
from kproxy.decoders.writer import write

CLIENT, BROKER = Side.CLIENT, Side.BROKER
MILLISECOND = 1_000_000
START = 1_700_000_000 * 1_000_000_000
PACKET_HEADER = 20
"""Bytes of the tape before each packet's payload, so that payloads do not adjoin."""


@cache
def eyes() -> Definitions:
    return definitions()


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def request(
    key: int,
    version: int,
    correlation_id: int,
    client_id: str | None = "shop",
    /,
    *,
    raw: bytes | None = None,
    **body: Any,
) -> bytes:
    """A request frame; fields that `body` does not name have their defaults. `raw` replaces the body."""
    header_version = eyes().request_header_version(key, version)
    header = eyes().message("RequestHeader", header_version)
    message = eyes().request(key, version)
    assert header is not None
    values: dict[str, Any] = {"requestApiKey": key, "requestApiVersion": version, "correlationId": correlation_id}
    if header_version:
        values["clientId"] = client_id
    if raw is None:
        assert message is not None
        raw = write(message, version, body)
    return framed(write(header, header_version, values) + raw)


def response(key: int, version: int, correlation_id: int, /, *, raw: bytes | None = None, **body: Any) -> bytes:
    """A response frame; fields that `body` does not name have their defaults. `raw` replaces the body."""
    header_version = eyes().response_header_version(key, version)
    header = eyes().message("ResponseHeader", header_version)
    message = eyes().response(key, version)
    assert header is not None
    if raw is None:
        assert message is not None
        raw = write(message, version, body)
    return framed(write(header, header_version, {"correlationId": correlation_id}) + raw)


class Tape:
    """A capture's bytes, as a Source."""

    def __init__(self) -> None:
        self.data = bytearray()

    def read(self, start: int, end: int) -> bytes:
        return bytes(self.data[start:end])


@dataclass
class Script:
    """Events of one captured connection; each call of `client` or `broker` adds a packet, a millisecond later."""

    tape: Tape = field(default_factory=Tape)
    events: list[Event] = field(default_factory=list)
    time: int = START
    offsets: dict[Side, int] = field(default_factory=lambda: {CLIENT: 0, BROKER: 0})

    def client(self, *data: bytes, stored: int | None = None) -> Script:
        return self.packet(CLIENT, b"".join(data), stored)

    def broker(self, *data: bytes, stored: int | None = None) -> Script:
        return self.packet(BROKER, b"".join(data), stored)

    def packet(self, side: Side, data: bytes, stored: int | None = None, comment: str | None = None) -> Script:
        self.tape.data += bytes(PACKET_HEADER)
        at = len(self.tape.data)
        self.tape.data += data[:stored]
        start = self.offsets[side]
        end = self.offsets[side] = start + len(data)
        self.time += MILLISECOND
        held = None if stored is None else [min(stored, len(data))]
        comments = {} if comment is None else {start: comment}
        self.events.append(Run(side, start, [end], [at], [self.time], held, comments))
        return self

    def packets(self, side: Side, data: bytes, size: int = 1448) -> Script:
        """Add `data` in packets of `size` bytes."""
        for at in range(0, len(data), size):
            self.packet(side, data[at : at + size])
        return self

    def lost(self, side: Side, data: bytes) -> Script:
        """Add a gap: `data` was sent and is not in the capture."""
        self.tape.data += bytes(PACKET_HEADER)
        start = self.offsets[side]
        self.offsets[side] = start + len(data)
        self.time += MILLISECOND
        self.events.append(Gap(side, start, start + len(data), len(self.tape.data) - 1, self.time))
        return self

    def again(self, side: Side, low: int, high: int) -> Script:
        """Add a retransmission of bytes [low, high) of a side with other content."""
        self.tape.data += bytes(PACKET_HEADER)
        self.time += MILLISECOND
        now = len(self.tape.data) - 1
        self.events.append(Run(side, self.offsets[side], [], [], [self.time], overlaps=[(low, high)], released=now))
        return self

    def wait(self, milliseconds: int) -> Script:
        self.time += milliseconds * MILLISECOND
        return self

    def end(self, side: Side | None = None, reason: str = "FIN") -> Script:
        self.tape.data += bytes(PACKET_HEADER)
        self.events.append(End(side, len(self.tape.data) - 1, self.time, reason, last_time=self.time))
        return self


Batches = Iterable[list[Event]]
Cut = Callable[[list[Event]], Batches]


def packets(events: list[Event]) -> Iterator[list[Event]]:
    """Cut: each packet is a batch."""
    for event in events:
        yield [event]


def _size(event: Event) -> int:
    return event.ends[0] - event.start if isinstance(event, Run) and event.ends else 0


def _pieces(event: Event, at: Iterable[int]) -> Iterator[Event]:
    """A run of one segment, cut at offsets of its payload."""
    if not isinstance(event, Run) or not event.ends:
        yield event
        return
    start, end, address, time = event.start, event.ends[0], event.at[0], event.times[0]
    held = None if event.stored is None else event.stored[0]
    # bytes beyond the snap length stay with the last captured ones, in no piece of their own
    cuts = [*sorted(cut for cut in set(at) if held is None or cut < held), end - start]
    low = 0
    for high in cuts:
        if low < high:
            stored = None if held is None else [max(0, min(held, high) - low)]
            comments = {offset: text for offset, text in event.comments.items() if start + low <= offset < start + high}
            where = address + low if held is None else address + min(low, held)
            yield Run(event.side, start + low, [start + high], [where], [time], stored, comments, (), event.released)
            low = high


def bytewise(events: list[Event]) -> Iterator[list[Event]]:
    """Cut: each byte is a batch."""
    for event in events:
        size = _size(event)
        for piece in _pieces(event, range(1, size)):
            yield [piece]


def joined(events: list[Event]) -> list[Event]:
    """The events as one batch in a reader's form: adjoining segments of a direction are one run."""
    out: list[Event] = []
    for side in (CLIENT, BROKER):
        last: Run | None = None
        for event in events:
            if event.side is not None and event.side is not side:
                continue
            if event.side is None and side is CLIENT:
                continue
            if isinstance(event, Run) and event.ends:
                if last is None or (last.stored is None) != (event.stored is None) or last.released != event.released:
                    stored: list[int] | None = None if event.stored is None else []
                    last = Run(side, event.start, [], [], [], stored, {}, (), event.released)
                    out.append(last)
                last.ends += event.ends  # type: ignore[operator]
                last.at += event.at  # type: ignore[operator]
                last.times += event.times  # type: ignore[operator]
                if event.stored is not None:
                    last.stored += event.stored  # type: ignore[operator]
                last.comments.update(event.comments)
            else:
                out.append(event)
                last = None
    return out


def whole(events: list[Event]) -> Iterator[list[Event]]:
    """Cut: all events are one batch."""
    yield joined(events)


def at_random(seed: int) -> Cut:
    """Cut: packets are cut at random offsets, and the pieces joined to batches of random size."""

    def cut(events: list[Event]) -> Iterator[list[Event]]:
        dice = random.Random(seed)
        pieces: list[Event] = []
        for event in events:
            size = _size(event)
            pieces += _pieces(event, [dice.randrange(1, size) for _ in range(dice.randrange(3)) if size > 1])
        at = 0
        while at < len(pieces):
            upto = at + dice.randrange(1, 8)
            yield joined(pieces[at:upto])
            at = upto

    return cut


@dataclass
class Played:
    """The result of a reading: `items` are in order of completion."""

    items: list[Exchange | StreamProblem]
    health: Health
    conversation: Conversation
    tape: Tape

    @property
    def exchanges(self) -> list[Exchange]:
        return [item for item in self.items if isinstance(item, Exchange)]

    @property
    def problems(self) -> list[StreamProblem]:
        return [item for item in self.items if isinstance(item, StreamProblem)]

    def facts(self) -> list[tuple[Any, ...]]:
        """All facts that must not depend on how the bytes are cut into batches."""
        return [*(facts(item, self.tape) for item in self.items), tuple(vars_of(self.health))]

    def lines(self) -> list[str]:
        """One short line for each exchange, "1 Metadata v12 #7 ok", so that tests read as scripts."""
        return [line(item) for item in self.items]


def vars_of(health: Health) -> list[int]:
    return [getattr(health, name) for name in health.__dataclass_fields__]


def line(item: Exchange | StreamProblem) -> str:
    if isinstance(item, StreamProblem):
        return f"! {item.side.name.lower()} {item.offset}+{item.size} {item.code.value}"
    api = None if item.api_key is None else eyes().api(item.api_key)
    if item.token:
        name = "token"
    elif item.api_key is None:
        name = "?"
    else:
        name = f"{api.name if api else item.api_key} v{item.api_version}"
    text = f"{item.number} {name}"
    if item.correlation_id is not None:
        text += f" #{item.correlation_id}"
    text += f" {item.status.value}"
    if item.problems:
        text += " (" + ", ".join(problem.code.value for problem in item.problems) + ")"
    return text


def _frame(frame: Frame | None, tape: Tape) -> Any:
    if frame is None:
        return None
    return (
        frame.stream_offset, frame.size, frame.first_time, frame.time, frame.at, bytes(frame.data(tape)),
        frame.missing, frame.comments,
    )  # fmt: skip


def facts(item: Exchange | StreamProblem, tape: Tape) -> tuple[Any, ...]:
    if isinstance(item, StreamProblem):
        return (item.side, item.offset, item.size, item.code, item.message, item.at, item.time)
    return (
        line(item), item.client_id, item.reason, item.problems,
        _frame(item.request, tape), _frame(item.response, tape),
    )  # fmt: skip


def play(
    script: Script,
    cut: Cut = whole,
    *,
    opened: bool = True,
    limits: Limits | None = None,
    release: Definitions | None = None,
) -> Played:
    """Read the script's events in the batches that `cut` makes of them."""
    health = Health()
    conversation = Conversation(
        "10.0.0.1:51234", "10.0.0.2:9092", script.tape, release or eyes(),
        opened=opened, limits=limits, health=health,
    )  # fmt: skip
    numbering = Numbering()
    items: list[Exchange | StreamProblem] = []
    for batch in cut(script.events):
        done = conversation.feed(batch)
        numbering.assign(conversation.take_started())
        done.sort(key=itemgetter(0))
        items += (item for _, item in done)
    return Played(items, health, conversation, script.tape)
