"""Collects groups over time: members, generations, and the cause of each rebalance, as far as the messages show it.

There are classic groups (JoinGroup, SyncGroup, Heartbeat, LeaveGroup), and groups whose members only send heartbeats:
consumer groups of KIP-848, share groups (KIP-932) and streams groups (KIP-1071). Their member epochs count as
generations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kproxy.captures.analysis.offsets import lag_json
from kproxy.captures.analysis.seen import Seen, Values
from kproxy.captures.lag import Lag
from kproxy.decoders.exchange_json import timestamp
from kproxy.decoders.schema import api_keys

EPOCH_HEARTBEATS: Final = {68: "consumer", 76: "share", 88: "streams"}
"""By API key of a heartbeat that carries a member's epoch, the type of its group."""
MOST: Final = 100_000
"""Maximum number of groups."""
MOST_MEMBERS: Final = 400_000
"""Maximum number of the members of all groups together."""
MOST_OFFSETS: Final = 1_000_000
"""Maximum number of partitions whose committed offsets are kept, in all groups together."""
GENERATIONS: Final = 1000
"""Maximum number of generations that are kept for each group, the newest ones."""
EVENTS: Final = 10_000
"""Maximum number of events of a group; later ones are only counted."""


@dataclass(slots=True, eq=False)
class Member:
    """A member of a group; `assignment` is its latest assignment: partitions by topic."""

    member_id: str
    client_id: str = ""
    host: str = ""
    instance_id: str | None = None
    joined: int = 0
    heartbeats: int = 0
    first_heartbeat: int = 0
    last_heartbeat: int = 0
    subscription: Any = None
    assignment: dict[str, list[int]] = field(default_factory=dict)
    left: int = 0
    awaits_next: int = 0
    """The epoch in which the member joined and got no partition because all belonged to others; it waits for the next
    epoch.

    0 if the member does not wait.
    """

    def line(self) -> dict[str, Any]:
        beats = self.heartbeats - 1
        return {
            "member_id": self.member_id,
            "client_id": self.client_id,
            "host": self.host,
            "instance_id": self.instance_id,
            "joined": timestamp(self.joined, 9) if self.joined else None,
            "left": timestamp(self.left, 9) if self.left else None,
            "heartbeats": self.heartbeats,
            "heartbeat_interval_ms": (
                round((self.last_heartbeat - self.first_heartbeat) / beats / 1e6, 1) if beats > 0 else None
            ),
            "assignment": self.assignment,
        }


@dataclass(slots=True, eq=False)
class Generation:
    """One generation of a group: its start, leader, members and cause.

    `exchange` is the number of its first exchange; `members` are those that messages name.
    """

    number: int
    time: int
    exchange: int
    protocol: str | None = None
    leader: str | None = None
    members: set[str] = field(default_factory=set)
    whole: bool = False
    """Whether `members` is complete, because the leader's JoinGroup response was captured."""
    causes: list[str] = field(default_factory=list)

    def line(self) -> dict[str, Any]:
        return {
            "generation": self.number,
            "time": timestamp(self.time, 9),
            "exchange": self.exchange,
            "protocol": self.protocol,
            "leader": self.leader,
            "members": sorted(self.members),
            "why": self.causes or ["the capture does not show why"],
        }


@dataclass(slots=True, eq=False)
class Event:
    """An event of a group, such as a join, an error or the end of a member."""

    time: int
    exchange: int
    what: str
    member_id: str
    detail: str = ""

    def line(self) -> dict[str, Any]:
        return {
            "time": timestamp(self.time, 9),
            "exchange": self.exchange,
            "event": self.what,
            "member_id": self.member_id,
            "detail": self.detail,
        }


@dataclass(slots=True, eq=False)
class Group:
    """One group; `kind` is "classic", "consumer", "share" or "streams"."""

    group_id: str
    kind: str = "classic"
    protocol_type: str | None = None
    coordinator: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    generations: list[Generation] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    more_events: int = 0
    commits: int = 0
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    errors: Counter[int] = field(default_factory=Counter)
    error_exchanges: dict[int, int] = field(default_factory=dict)
    """By error code, the number of the first exchange with it."""
    first: int = 0
    last: int = 0
    pending: list[str] = field(default_factory=list)
    """Events since the newest generation began; they are the causes of the next one."""

    @property
    def generation(self) -> Generation | None:
        return self.generations[-1] if self.generations else None

    def line(self, lag: Lag) -> dict[str, Any]:
        newest = self.generation
        return {
            "group": self.group_id,
            "kind": self.kind,
            "protocol_type": self.protocol_type,
            "coordinator": self.coordinator,
            "generation": newest.number if newest else None,
            "protocol": newest.protocol if newest else None,
            "rebalances": max(0, len(self.generations) - 1),
            "members": [one.line() for one in self.members.values()],
            "generations": [one.line() for one in self.generations],
            "events": [one.line() for one in sorted(self.events, key=lambda one: (one.time, one.exchange))],
            "more_events": self.more_events,
            "commits": self.commits,
            "committed": {topic: dict(sorted(offsets.items())) for topic, offsets in sorted(self.offsets.items())},
            "lag": lag_json(lag.of(self.group_id), self.group_id, lag),
            "errors": dict(sorted(self.errors.items())),
            "error_exchanges": dict(sorted(self.error_exchanges.items())),
            "first_exchange": self.first,
            "last_exchange": self.last,
        }


class Groups:
    """Collects groups, their generations and events from exchanges."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self._members = 0
        self._offsets = 0
        self._lag = Lag()

    def add(self, seen: Seen) -> None:
        self._lag = seen.lag
        take = {
            api_keys.JOIN_GROUP: self._join,
            api_keys.SYNC_GROUP: self._sync,
            api_keys.HEARTBEAT: self._heartbeat,
            api_keys.LEAVE_GROUP: self._leave,
            api_keys.OFFSET_COMMIT: self._commit,
            **dict.fromkeys(EPOCH_HEARTBEATS, self._epoch_heartbeat),
        }.get(seen.key)
        group_id = seen.request.get("groupId")
        if take is None or not isinstance(group_id, str):
            return
        group = self._group(group_id)
        group.first = group.first or seen.number
        group.last = seen.number
        group.coordinator = seen.exchange.connection.broker
        if seen.error:
            group.errors[seen.error] += 1
            group.error_exchanges.setdefault(seen.error, seen.number)
        take(group, seen)

    def result(self) -> list[Group]:
        """All groups; those with the most rebalances come first."""
        return sorted(self._groups.values(), key=lambda one: (-len(one.generations), one.group_id))

    def lines(self) -> Iterator[dict[str, Any]]:
        for group in self.result():
            yield {"schema": "kproxy.group/1", **group.line(self._lag)}

    # --- classic groups ---

    def _join(self, group: Group, seen: Seen) -> None:
        asked, answered = seen.shown()
        group.protocol_type = asked.get("protocolType") or group.protocol_type
        if seen.error or not answered.get("memberId") or "generationId" not in answered:
            _event(group, seen, "join refused" if seen.error else "join", asked.get("memberId") or "", _code(seen))
            return
        member_id = answered["memberId"]
        known = member_id in group.members
        member = self._member(group, member_id, seen)
        member.instance_id = asked.get("groupInstanceId") or member.instance_id
        member.left = 0
        generation = self._generation(group, answered["generationId"], seen)
        before = group.generations[-2].members if len(group.generations) > 1 else set()
        generation.protocol = answered.get("protocolName") or generation.protocol
        generation.leader = answered.get("leader") or generation.leader
        generation.members.add(member_id)
        if listed := answered.get("members"):
            generation.whole = True
            generation.members |= {one["memberId"] for one in listed}
            _gone(group, generation)
        name = _name(member)
        subscription = _subscription(asked)
        if reason := asked.get("reason"):
            generation.causes.append(f"{name}: {reason}")
        elif not known or member_id not in before:
            if not (known and not before):
                generation.causes.append(f"{name} joined")
        elif member.subscription not in {None, subscription}:
            generation.causes.append(f"{name} changed its subscription")
        member.subscription = subscription
        _event(group, seen, "join", member_id, f"generation {generation.number}")

    def _sync(self, group: Group, seen: Seen) -> None:
        asked, answered = seen.shown()
        member = self._member(group, asked.get("memberId", ""), seen)
        if seen.error:
            _event(group, seen, "sync refused", member.member_id, _code(seen))
            return
        for one in asked.get("assignments") or ():
            _assign(group, one.get("memberId", ""), one.get("assignment"))
        _assign(group, member.member_id, answered.get("assignment"))
        _event(group, seen, "sync", member.member_id, _partitions(member.assignment))

    def _heartbeat(self, group: Group, seen: Seen) -> None:
        member = self._member(group, seen.request.get("memberId", ""), seen)
        _beat(member, seen)
        if seen.error:
            _event(group, seen, "heartbeat answered", member.member_id, _code(seen))

    def _leave(self, group: Group, seen: Seen) -> None:
        leaving = seen.request.get("members") or [seen.request]
        for one in leaving:
            member_id = one.get("memberId") or ""
            if not seen.error:
                _left(group, member_id, seen, one.get("reason") or "")

    def _commit(self, group: Group, seen: Seen) -> None:
        group.commits += 1
        for element in seen.request.get("topics") or ():
            topic = seen.topic(element)
            for one in element.get("partitions") or ():
                partition = one["partitionIndex"]
                if partition not in group.offsets.get(topic, ()):
                    if self._offsets >= MOST_OFFSETS:
                        continue
                    self._offsets += 1
                group.offsets.setdefault(topic, {})[partition] = one["committedOffset"]

    # --- groups whose members only send heartbeats ---

    def _epoch_heartbeat(self, group: Group, seen: Seen) -> None:
        group.kind = group.protocol_type = EPOCH_HEARTBEATS[seen.key]
        member_id = seen.response.get("memberId") or seen.request.get("memberId") or ""
        epoch = seen.request.get("memberEpoch", 0)
        if seen.error:
            _event(group, seen, "heartbeat answered", member_id, _code(seen))
            return
        if epoch < 0:
            _left(group, member_id, seen, "" if epoch == -1 else "its static member comes back")
            return
        known = member_id in group.members
        member = self._member(group, member_id, seen)
        member.instance_id = seen.request.get("instanceId") or member.instance_id
        _beat(member, seen)
        if epoch == 0 and not (known and member.left == 0 and member.heartbeats > 2):
            group.pending.append(f"{_name(member)} joined")
            _event(group, seen, "join", member_id)
        subscription = _subscription(seen.request)
        if subscription is not None:
            if epoch > 0 and member.subscription not in {None, subscription}:
                group.pending.append(f"{_name(member)} changed its subscription")
            member.subscription = subscription
        member.left = 0
        assignment = seen.response.get("assignment")
        reached = seen.response.get("memberEpoch")
        if isinstance(reached, int) and reached > 0:
            newest = group.generation
            if epoch == 0 and newest is not None and reached == newest.number:
                # A member's join begins the next epoch; until its assignment is computed, members receive the previous
                # one.
                member.awaits_next = reached
            if newest is None or reached >= newest.number:
                generation = self._generation(group, reached, seen)
                generation.protocol = seen.request.get("serverAssignor") or generation.protocol
                if reached != member.awaits_next or (assignment and assignment.get("topicPartitions")):
                    generation.members.add(member_id)
                    member.awaits_next = 0
        if assignment is not None:
            member.assignment = {
                seen.topic(one): list(one["partitions"]) for one in assignment.get("topicPartitions") or ()
            }
            _event(group, seen, "assigned", member_id, _partitions(member.assignment))

    # --- both kinds ---

    def _generation(self, group: Group, number: int, seen: Seen) -> Generation:
        newest = group.generation
        if newest is not None and newest.number == number:
            return newest
        generation = Generation(number, seen.answered_at, seen.number, causes=group.pending)
        group.pending = []
        if group.kind != "classic" and newest is not None:
            gone = {one for one in newest.members if one in group.members and group.members[one].left}
            generation.members |= newest.members - gone
            generation.protocol = newest.protocol
        group.generations.append(generation)
        del group.generations[:-GENERATIONS]
        return generation

    def _group(self, group_id: str) -> Group:
        group = self._groups.get(group_id)
        if group is None:
            group = Group(group_id)
            if len(self._groups) < MOST:
                self._groups[group_id] = group
        return group

    def _member(self, group: Group, member_id: str, seen: Seen) -> Member:
        member = group.members.get(member_id)
        if member is None:
            member = Member(member_id, joined=seen.time)
            if self._members < MOST_MEMBERS:
                group.members[member_id] = member
                self._members += 1
        if not member.client_id:
            member.client_id, member.host = seen.client.client_id, seen.client.host
        seen.client.groups.add(group.group_id)
        return member


def _gone(group: Group, generation: Generation) -> None:
    """Note members of the previous generation that did not leave, but are missing in this generation."""
    if len(group.generations) < 2 or not group.generations[-2].whole:
        return
    for member_id in sorted(group.generations[-2].members - generation.members):
        member = group.members.get(member_id) or Member(member_id)
        if not member.left:
            member.left = generation.time
            text = f"{_name(member)} is gone without leaving: its session timed out, or it did not rejoin in time"
            generation.causes.append(text)


def _left(group: Group, member_id: str, seen: Seen, why: str) -> None:
    member = group.members.get(member_id) or Member(member_id)
    member.left = seen.time
    group.pending.append(f"{_name(member)} left" + (f": {why}" if why else ""))
    _event(group, seen, "leave", member_id, why)


def _beat(member: Member, seen: Seen) -> None:
    member.heartbeats += 1
    member.first_heartbeat = member.first_heartbeat or seen.time
    member.last_heartbeat = seen.time


def _event(group: Group, seen: Seen, what: str, member_id: str, detail: str = "") -> None:
    if len(group.events) < EVENTS:
        group.events.append(Event(seen.answered_at, seen.number, what, member_id, detail))
    else:
        group.more_events += 1


def _name(member: Member) -> str:
    """A member's name in texts: its id, with the client id unless the member id begins with it."""
    if not member.client_id or member.member_id.startswith(member.client_id):
        return member.member_id
    return f"{member.client_id} ({member.member_id})"


def _subscription(asked: Values) -> Any:
    """The subscription in a member's request, in a form that can be compared; None if the request has none."""
    if "protocols" in asked:
        topics: set[str] = set()
        for protocol in asked["protocols"] or ():
            inside = protocol.get("metadata")
            decoded = inside.get("decoded") if isinstance(inside, dict) else None
            if not isinstance(decoded, dict) or "topics" not in decoded:
                return None
            topics |= set(decoded["topics"])
        return tuple(sorted(topics))
    names, pattern = asked.get("subscribedTopicNames"), asked.get("subscribedTopicRegex")
    return None if names is None and pattern is None else (tuple(sorted(names or ())), pattern)


def _assign(group: Group, member_id: str, shown: Any) -> None:
    decoded = shown.get("decoded") if isinstance(shown, dict) else None
    member = group.members.get(member_id)
    if member is not None and isinstance(decoded, dict) and "assignedPartitions" in decoded:
        member.assignment = {one["topic"]: list(one["partitions"]) for one in decoded["assignedPartitions"]}


def _partitions(assignment: dict[str, list[int]]) -> str:
    return ", ".join(f"{topic} {' '.join(map(str, numbers))}" for topic, numbers in sorted(assignment.items()))


def _code(seen: Seen) -> str:
    from kproxy.decoders.schema import errors

    return f"{seen.error} {errors.name(seen.error)}" if seen.error else ""
