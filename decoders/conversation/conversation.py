"""One TCP connection: runs of bytes in, exchanges out. numbering.py describes how a reader calls it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from kproxy.decoders.conversation import sasl as following
from kproxy.decoders.conversation.announcement import announces_kafka, answers
from kproxy.decoders.conversation.compiled import Pairing
from kproxy.decoders.conversation.items import END, RESPONSE, WHOLE, Item
from kproxy.decoders.conversation.limits import SECOND, Limits
from kproxy.decoders.conversation.recognition import Verdict, known
from kproxy.decoders.conversation.requests import Requests
from kproxy.decoders.conversation.responses import Responses
from kproxy.decoders.dialects.decoding import fits
from kproxy.decoders.exchange import Connection, Exchange, Frame, Health, Status, StreamProblem, one_string
from kproxy.decoders.frames import decode_frame
from kproxy.decoders.problems import Code
from kproxy.decoders.sasl.session import Session
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.stream import End, Event, Gap, Run, Side, Source

__all__ = ["SECOND", "Conversation", "Limits"]

Done = list[tuple[int, Exchange | StreamProblem]]

NOT_CAPTURED = "the broker's side was not captured"
"""Reason of requests without a response, if the capture holds no packet of the broker."""


class Conversation:
    """Finds the frames in both directions of one TCP connection and pairs them to exchanges.

    `opened` means that the capture holds the connection's beginning (SYN), so that the first byte of each direction
    begins a frame. `expected` means that the user named the broker's port as Kafka's: responses are read even if
    nothing of the client was captured. `health` is shared by all conversations of a reading.
    """

    def __init__(
        self,
        client: str,
        broker: str,
        source: Source,
        definitions: Definitions,
        *,
        first_time: int = 0,
        opened: bool = True,
        expected: bool = False,
        limits: Limits | None = None,
        health: Health | None = None,
    ) -> None:
        self.connection = Connection(0, client, one_string(broker), first_time, opened)
        self.source = source
        self.definitions = definitions
        self.opened = opened
        self.expected = expected
        self.limits = limits or Limits()
        self.health = health or Health()
        self.started: list[tuple[int, Exchange]] = []
        self.ignored = False
        """True once the connection is known not to be Kafka; from then on `feed` needs only events that hold copies."""
        self.beginning = b""
        """The client's first bytes, if they are neither Kafka nor TLS."""
        # A method here would create a reference cycle and delay the release of ended conversations.
        fits_asked = partial(_fits, source, definitions)
        self._pairing = Pairing(self.connection, self.limits, self.started, fits_asked, opened=opened)
        known_apis = self._known = known(definitions)
        self._requests = Requests(
            self.connection, source, definitions, known_apis, self.limits.frame, self.health, self.started,
            opened=opened,
        )  # fmt: skip
        self._responses = Responses(
            self.connection, source, definitions, known_apis, self.limits.frame, self.health,
            self._pairing.outstanding, self._pairing.repeated, opened=opened,
        )  # fmt: skip
        self._held: list[Run | Gap | End] = []
        """Events of the broker's side that wait until the connection is recognised as Kafka."""
        self._unfinished: End | None = None
        """The End of the broker's side, kept while its search for the next frame still waits for requests that missing
        client bytes may delay.
        """
        self._ended = [False, False]
        self._over = False
        self._session: Session | None = None

    @property
    def recognised(self) -> bool:
        """Whether a request of Kafka was seen."""
        return self._requests.recognised

    def feed(self, events: list[Event]) -> Done:
        """Process a batch of events of both directions.

        Returns (address, item) of complete exchanges and stream problems.

        Each direction's events are in stream order. Runs of a direction are adjacent, or a Gap stands between them for
        missing bytes. The lists in runs hold plain ints (lists or array.array).
        """
        if self._over or (self.ignored and not has_copies(events)):
            return []
        asked: list[Item] = []
        requests = self._requests
        for event in events:
            if event.side is not Side.BROKER:
                requests.feed(event, asked)
                if isinstance(event, End):
                    asked.append((max(event.at, requests.floor), END, event, None))
            if event.side is not Side.CLIENT:
                self._held.append(event)
        if self.ignored and not requests.recognised:
            self._held.clear()
            return []
        if not requests.recognised:
            return self._unrecognised(asked)
        if self.ignored:
            self.ignored = False
            self.health.not_kafka -= 1
        self._pair(asked)
        return self._take_done()

    def _take_done(self) -> Done:
        pairing = self._pairing
        done, pairing.done = pairing.done, []
        if self._requests.authenticates:
            self._follow_session(done)
        return done

    def _follow_session(self, done: Done) -> None:
        for _, exchange in done:
            if isinstance(exchange, Exchange) and following.concerns(exchange):
                self._session = following.follow(self._session, exchange, self.source, self.definitions)
                exchange.session = self._session

    def _unrecognised(self, asked: list[Item]) -> Done:
        """Process a batch while the connection is not recognised as Kafka.

        `asked` are the items of the client's side.
        """
        foreign = self._requests.foreign
        over = any(kind == END and item.side is None for _, kind, item, _ in asked)
        size = sum(event.ends[-1] - event.start for event in self._held if isinstance(event, Run) and len(event.ends))
        if foreign is None and not over and size <= self.limits.unrecognised:
            return []
        if foreign is None and self._only_answers():
            key, time = self._last_held()
            lost = self._requests.presume(max(key for key, *_ in asked) if asked else key)
            self._responses.presume(aligned=self.opened or self._announced())
            self._pairing.presume()
            self._one_sided(self._requests.floor, Side.CLIENT, time)
            self._pair([*lost, *asked])
            return self._take_done()
        self.ignored = True
        self._held.clear()
        if foreign is not Verdict.TLS:
            self.health.not_kafka += 1
            self.beginning = self._requests.beginning()
            self.started.clear()
            return []
        self.health.tls += 1
        for key, kind, item, _ in asked:
            if kind == WHOLE:
                item.status = Status.TLS
                self._pairing.done.append((key, item))
        return self._take_done()

    def _only_answers(self) -> bool:
        """Whether the capture has bytes of the broker's side only, and these are proved to be Kafka."""
        if self._requests.heard:
            return False
        if self.expected and answers(self._held, self.source, self.limits.frame, opened=self.opened):
            return True
        return self._announced()

    def _announced(self) -> bool:
        """Whether the broker's side begins with an ApiVersions response."""
        return announces_kafka(self._held, self.source, self.definitions, self._known)

    def _last_held(self) -> tuple[int, int]:
        """(highest address, latest time) of the events that wait in `_held`."""
        last = time = 0
        for event in self._held:
            if not isinstance(event, Run):
                last, time = max(last, event.at), max(time, event.time)
            elif len(event.at):
                last, time = max(last, event.released, event.at[-1]), max(time, event.times[-1])
        return last, time

    def _one_sided(self, key: int, side: Side, time: int) -> None:
        """Report, once for each connection, that the capture has bytes of one side only."""
        who, lacks = ("client", "requests") if side is Side.CLIENT else ("broker", "responses")
        text = f"the capture holds nothing that the {who} sent: the {lacks} of this connection are unknown"
        self._pairing.done.append((key, StreamProblem(self.connection, side, time, 0, 0, Code.ONE_SIDED, text, key)))

    def _answers(self) -> Iterator[list[Item] | int]:
        """Yields lists of items of the broker's side, in order, and keys (int) between them.

        When a key comes, the caller must process the client's items with lower keys before it asks for the next yield.
        """
        responses = self._responses
        held = self._held
        responses.floor = max(responses.floor, self._requests.floor_at_start)
        held.reverse()  # a list, because an empty deque takes 0.7 kB
        while held:
            event = held.pop()
            out: list[Item] = []
            if responses.over or self._unfinished is not None:
                continue
            if responses.search is not None or isinstance(event, End) or (isinstance(event, Run) and event.copies):
                yield from self._until(_first_key(event))
            if isinstance(event, End):
                if responses.search is None:
                    yield self._last(event)
                else:
                    self._unfinished = event
                continue
            responses.take(event, out)
            yield from self._walk(out)

    def _until(self, key: int) -> Iterator[list[Item] | int]:
        """Yield `key`, so that the caller processes the requests captured before it.

        If such a request is delivered after broker bytes that may hold its response were searched, those of these bytes
        that are still in memory are searched again.
        """
        while True:
            yield max(key, self._responses.floor)
            if not self._responses.late:
                break
            yield from self._walk([])

    def _walk(self, out: list[Item]) -> Iterator[list[Item] | int]:
        """Yield the items in `out`, then those found in the bytes captured so far; yields lists and keys, as `_answers`
        does.
        """
        responses = self._responses
        released = 0
        while True:
            if responses.late:
                # Requests that a hole delayed were all delivered at this key.
                released = responses.late + 1
                responses.look_again()
            responses.scan(out)
            yield out
            out = []
            if responses.late:
                continue
            probe = responses.probe()
            if probe is None:
                break
            yield max(probe, released)
            if responses.over:
                break
            if not responses.late:
                responses.seek(out)

    def _last(self, event: End) -> list[Item]:
        """The items that the end of the broker's side completes."""
        out: list[Item] = []
        self._responses.finish(event, out)
        if event.side is not None:
            out.append((max(event.at, self._responses.floor), END, event, None))
        return out

    def _pair(self, asked: list[Item]) -> None:
        """Pair the client's items with the responses, in the order in which they were captured."""
        index = self._merge(self._answers(), asked, 0)
        while index < len(asked):
            self._ask(asked[index])
            index += 1
            if self._responses.late:
                index = self._merge(self._walk([]), asked, index)

    def _merge(self, answers: Iterable[list[Item] | int], asked: list[Item], index: int) -> int:
        """Process the lists in `answers`, and at each key in `answers` the client's items with lower keys.

        `index` is the position in `asked` to begin at; returns the position of the next unprocessed item.
        """
        pairing, responses = self._pairing, self._responses
        for found in answers:
            if not isinstance(found, int):
                index = pairing.take(found, asked, index, self._ask, self._other, responses.search)
                continue
            while index < len(asked) and asked[index][0] < found:
                self._ask(asked[index])
                index += 1
                if responses.late:
                    break
        return index

    def _ask(self, item: Item) -> None:
        """Process an item of the client's side."""
        key, kind, exchange, correlation_id = item
        if kind < RESPONSE:
            self._pairing.request(key, exchange, kind, correlation_id)
            if self._responses.search is not None:
                self._responses.asked(exchange.request, key)
            return
        if kind == END and self._unfinished is not None:
            # No further request can explain the other side's last bytes.
            event, self._unfinished = self._unfinished, None
            self._responses.floor = max(self._responses.floor, key)
            self._merge(self._walk([]), [], 0)
            self._merge([self._last(event)], [], 0)
        self._other(key, exchange)

    def _other(self, key: int, item: StreamProblem | End) -> None:
        """Process a stream problem, or the end of a direction."""
        if isinstance(item, StreamProblem):
            if item.code is Code.OVERLAP:
                self._pairing.overlap(key, item)
            else:
                self._pairing.done.append((key, item))
            return
        if item.side is None:
            self._ended = [True, True]
        else:
            self._ended[item.side] = True
        if item.side is not Side.CLIENT or all(self._ended):
            unheard = item.unheard is Side.BROKER
            reason = NOT_CAPTURED if unheard else f"the connection ended ({item.reason})"
            if unheard:
                self._one_sided(key, Side.BROKER, item.time)
            self._pairing.end(key, item, reason, over=all(self._ended))
        if item.side is None:
            self._over = True

    def take_started(self) -> list[tuple[int, Exchange]]:
        """The exchanges that became known since the last call: (address of the last byte of the header, exchange).

        The header is that of the request, or of a response without a request.
        """
        started = self.started.copy()
        self.started.clear()
        return started

    @property
    def waiting(self) -> int:
        """Number of requests in flight."""
        return self._pairing.waiting

    def keep(self, most: int, at: int) -> Done:
        """Give up the oldest requests until at most `most` are in flight.

        `at` is the present address in the capture.
        """
        self._pairing.keep(at, most, "in all")
        return self._take_done()

    def tick(self, time: int, at: int) -> Done:
        """Complete the exchanges whose deadline has passed, with the capture at `time` and address `at`.

        Callers that follow a growing capture use this after each batch, for connections without events in it. It only
        makes results come sooner: the connection's next event would complete the same exchanges.
        """
        if time > self._pairing.deadline:
            self._pairing.tick(at, time)
        return self._take_done()


def _fits(source: Source, definitions: Definitions, frame: Frame, asked: Exchange) -> bool:
    """Whether a frame can be the response to the request of `asked`."""
    decoded = decode_frame(frame.data(source), "response", asked, definitions)
    return decoded is not None and fits(decoded)


def has_copies(events: Iterable[Event]) -> bool:
    """Whether any event holds copies of earlier bytes that differ from them."""
    return any(isinstance(event, Run) and len(event.copies) > 0 for event in events)


def _first_key(event: Event) -> int:
    """The address at which an event begins; for a run, `released` if that is higher."""
    if isinstance(event, Run):
        return max(event.released, event.at[0] if len(event.at) else 0)
    return event.at
