"""Runs actors: decodes the frames of their APIs, passes them to the actors, and disables an actor that fails."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from kproxy.addons.api import SIZE, Act, Actor, Frame, name_of
from kproxy.core.differences import by, differences
from kproxy.core.rewrite import Change
from kproxy.core.verdict import Ending, Turn, Verdict, Wait
from kproxy.decoders.message import Decoded, decode_request, decode_response
from kproxy.decoders.schema import Definitions, errors
from kproxy.decoders.stream import Side
from kproxy.faults import synthesis

Warn = Callable[[str, str, str], None]
"""A function (topic, line, details) that shows the user the line once for each topic, and logs the details."""

CHANGES = 50
"""Maximum number of changed fields that a packet comment lists; further ones are only counted."""


class Actors:
    """All actors of a relay; implements the protocol `kproxy.core.acting.Actors`."""

    def __init__(
        self,
        actors: Iterable[Actor],
        definitions: Definitions,
        warn: Warn,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Registers each actor for the APIs it names; `clock` gives the time in seconds for delays.

        Raises LookupError if an API does not exist.
        """
        self._definitions = definitions
        self._clock = clock
        self._warn = warn
        self.plans: dict[int, Any] = {}
        self._working = list(actors)
        """The actors that have not failed yet."""
        self._by_key: dict[Side, dict[int, list[Actor]]] = {Side.CLIENT: {}, Side.BROKER: {}}
        keys = {api.name: api.key for api in definitions.apis.values()}
        for actor in self._working:
            sides = [side for side in self._by_key if _acts_on(actor, side)]
            for api in actor.apis:
                key = keys.get(api) if isinstance(api, str) else api
                if key is None:
                    raise LookupError(f"there is no API {api!r}")
                for side in sides:
                    self._by_key[side].setdefault(key, []).append(actor)

    def act_on(self, side: Side, api_key: int) -> bool:
        return api_key in self._by_key[side]

    @property
    def definitions(self) -> Definitions:
        return self._definitions

    def offer(self, side: Side, turn: Turn, verdict: Verdict) -> None:
        """Passes the whole frame of a verdict to the actors, which may change the verdict. Never raises."""
        api_key, api_version = turn.api_key, turn.api_version
        parties = turn.parties.client, turn.parties.broker
        unseen: Frame | None = None
        """The decoded current frame.

        None once an actor has received it, because the actor may have modified its values.
        """
        for actor in tuple(self._by_key[side].get(api_key, ())):
            if verdict.frame is None or verdict.final:
                break
            frame = verdict.frame
            given, unseen = unseen or self._read(side, api_key, api_version, frame, *parties), None
            if given is None:
                break
            try:
                new = actor.request(given) if side is Side.CLIENT else actor.response(given)
                if isinstance(new, Act):
                    unseen = None
                    self._do(actor, new, given, turn, verdict)
                    continue
                if new is None or new == frame:
                    continue
                unseen = self._checked(given, new, parties)
                before = self._read(side, api_key, api_version, frame, *parties)
                if before is not None:
                    verdict.changes += _changes(before, unseen, name_of(actor))
                verdict.frame = new
            except Exception as error:  # noqa: BLE001 (anybody's code)
                unseen = None
                self._shut_out(actor, given, error)

    def _do(self, actor: Actor, act: Act, given: Frame, turn: Turn, verdict: Verdict) -> None:
        """Carries out an actor's Act on a frame. Raises an exception if that is impossible."""
        name = name_of(actor)
        note = f"{name}: {act.verb}"
        if act.verb == "drop":
            verdict.frame = None
        elif act.verb == "disconnect":
            verdict.ending = Ending(act.reset)
        elif act.verb == "delay":
            if act.data is not None and act.data != given.data:
                became = self._checked(given, act.data, (given.client, given.broker))
                verdict.changes += _changes(given, became, name)
                verdict.frame = act.data
            verdict.wait = Wait(name, self._clock() + act.seconds)
            note += f" {act.seconds:g}s"
        else:
            self._answer(name, act, given, turn, verdict)
            return
        verdict.notes.append(note)

    def _answer(self, name: str, act: Act, given: Frame, turn: Turn, verdict: Verdict) -> None:
        """Answers a request instead of the broker, or puts an error or a body into a response."""
        key, version = given.api_key, given.api_version
        fault = synthesis.Fault(act.code, (), lambda _: None)
        if given.side is Side.BROKER:
            body = act.body
            if body is None:
                body = synthesis.stamped(given.message, given.version, given.body, key, fault)
            data = given.written(body=body)
            verdict.changes += _changes(given, self._checked(given, data, (given.client, given.broker)), name)
            verdict.frame = data
            return
        if act.body is None:
            asked = Decoded(given.message, given.version, given.header, given.body)
            made = synthesis.answer(asked, key, version, fault, self._definitions)
            note = f"{name}: answer {errors.name(act.code)}"
        else:
            message = self._definitions.response(key, version)
            if message is None:
                raise ValueError("no definition of this version's response")
            made = message, version, act.body
            note = f"{name}: answer"
        answer = synthesis.frame(key, version, turn.correlation_id, made, self._definitions)
        verdict.answer_instead(note, answer)

    def passed(self, side: Side, api_key: int, api_version: int, reason: str) -> None:
        """Warns the user that a frame was forwarded without passing the actors; `reason` says why."""
        where = "request" if side is Side.CLIENT else "response"
        api = self._definitions.api(api_key)
        name = f"{f'API {api_key}' if api is None else api.name} v{api_version}"
        names = ", ".join(name_of(actor) for actor in self._by_key[side].get(api_key, ()))
        self._warn(
            f"addon-{where}-{name}-{reason}",
            f"a {where} of {name} was forwarded without its addons ({names}): {reason}",
            "",
        )

    def _read(self, side: Side, api_key: int, api_version: int, data: bytes, client: str, broker: str) -> Frame | None:
        """The decoded frame; None, after a warning, if the frame does not fit the layout of its version."""
        definitions = self._definitions
        request = side is Side.CLIENT
        if request:
            decoded = decode_request(data, definitions)
            version = definitions.request_header_version(api_key, api_version)
            header = definitions.message("RequestHeader", version)
        else:
            decoded = decode_response(data, api_key, api_version, definitions)
            version = definitions.response_header_version(api_key, api_version)
            header = definitions.message("ResponseHeader", version)
        api, message = definitions.api(api_key), decoded.message
        if api is None or message is None or header is None or decoded.body is None or decoded.problems:
            why = decoded.problems[0].message if decoded.problems else "no definition of this version"
            self.passed(side, api_key, api_version, f"the frame cannot be decoded: {why}")
            return None
        values = decoded.header
        return Frame(
            side, api.name, api_key, api_version, values["correlationId"], client, broker, data, values, decoded.body,
            header, version, message, decoded.version,
        )  # fmt: skip

    def _checked(self, old: Frame, new: bytes, parties: tuple[str, str]) -> Frame:
        """Decodes and checks the frame that an actor returned for `old`.

        Raises ValueError or TypeError if it is no valid replacement.
        """
        if not isinstance(new, bytes):
            raise TypeError(f"the actor returned {type(new).__name__} instead of bytes")
        if len(new) < SIZE or int.from_bytes(new[:SIZE], "big") != len(new) - SIZE:
            raise ValueError("the length field of the returned frame is wrong")
        request = old.side is Side.CLIENT
        fixed = slice(SIZE, SIZE + 8) if request else slice(SIZE, SIZE + 4)
        if new[fixed] != old.data[fixed]:
            raise ValueError("the returned frame has another API key, version or correlation id")
        became = self._read(old.side, old.api_key, old.api_version, new, *parties)
        if became is None:
            raise ValueError("the returned frame cannot be decoded")
        return became

    def reload(self, classes: Iterable[type[Actor]], name: str | None) -> list[str]:
        """Replaces the actor called `name`, or all actors if None, by instances of `classes`; returns their names.

        Raises LookupError if there is no actor of this name or an instance cannot be created; nothing changes then.
        """
        working = {name_of(actor): actor for actor in self._working}
        actors, renewed = [], []
        for one in classes:
            try:
                made = one()
                Actors([made], self._definitions, self._warn)
            except Exception as error:  # an actor's class is third-party code
                raise LookupError(f"cannot create actor {one.__name__}: {type(error).__name__}: {error}") from error
            called = name_of(made)
            if name in {None, called}:
                renewed.append(called)
                actors.append(made)
            elif called in working:
                actors.append(working[called])
        if not renewed:
            raise LookupError(f"there is no actor {name!r}")
        fresh = Actors(actors, self._definitions, self._warn, self._clock)
        self._working, self._by_key = fresh._working, fresh._by_key
        self.plans.clear()
        return renewed

    def _shut_out(self, actor: Actor, frame: Frame, error: Exception) -> None:
        name = name_of(actor)
        self._working = [other for other in self._working if other is not actor]
        for by_key in self._by_key.values():
            for key in [key for key, actors in by_key.items() if actor in actors]:
                by_key[key] = [other for other in by_key[key] if other is not actor]
                if not by_key[key]:
                    del by_key[key]
        text = f"actor {name} has failed on {frame.api} v{frame.api_version} and is disabled "
        text += f"(kproxy addons reload {name} enables it): {type(error).__name__}: {error}"
        self._warn(f"actor-{name}", text, traceback.format_exc())


def table(
    classes: Iterable[type[Actor]],
    definitions: Definitions,
    warn: Warn,
    clock: Callable[[], float] = time.monotonic,
) -> Actors:
    """Creates one actor of each class; a class that cannot be instantiated is reported and left out."""
    actors = []
    for one in classes:
        try:
            actor = one()
            Actors([actor], definitions, warn)
        except Exception as error:  # noqa: BLE001 (anybody's code)
            text = f"actor {one.__name__} is left out: {type(error).__name__}: {error}"
            warn(f"actor-{one.__name__}", text, traceback.format_exc())
        else:
            actors.append(actor)
    return Actors(actors, definitions, warn, clock)


def _acts_on(actor: Actor, side: Side) -> bool:
    """Whether the actor's class overrides the method for frames that `side` sends: `request` or `response`."""
    if side is Side.CLIENT:
        return type(actor).request is not Actor.request
    return type(actor).response is not Actor.response


def _changes(old: Frame, new: Frame, actor: str) -> list[Change]:
    """The fields in which `new` differs from `old`, with the actor's name before each path and secrets withheld."""
    found = differences(old.header, new.header, old.header_message, old.header_version)
    found += differences(old.body, new.body, old.message, old.version)
    if len(found) > CHANGES:
        found[CHANGES:] = [Change(f"({len(found) - CHANGES} more fields)", "", "")]
    return by(actor, found or [Change("(a withheld value)", "", "")])
