"""The views of captures.analysis as lines of text: a heading for each thing, with indented details."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from kproxy.captures.text import size_text
from kproxy.decoders.escaping import escape
from kproxy.decoders.plurals import counted
from kproxy.decoders.schema import errors

Line = Mapping[str, Any]
Clock = Callable[[str | None], str]
"""The time of day of an RFC 3339 time, to the millisecond; "" for None."""


def utc(time: str | None) -> str:
    return "" if time is None else time[11:23]


def local(time: str | None) -> str:
    """The time in this machine's zone; in UTC if the zone cannot represent it."""
    if time is None:
        return ""
    try:
        moment = datetime.fromisoformat(time).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"{utc(time)}Z"
    return f"{moment:%H:%M:%S}{time[19:23]}"


SHOWN_EVENTS: Final = 40
"""Maximum number of a group's events in the text; --json has all that were kept."""


def topics(lines: Iterable[Line], _clock: Clock) -> Iterator[str]:
    for one in lines:
        yield (
            f"{one['topic']}  {counted(one['partitions'], 'partition')}"
            + (f"  id {one['topic_id']}" if one["topic_id"] else "")
            + f"  in {counted(one['records_in'], 'record')} {size_text(one['bytes_in'])}B"
            + f"  out {counted(one['records_out'], 'record')} {size_text(one['bytes_out'])}B"
        )
        for user in one["producers"]:
            facts = [
                _user(user),
                f"{counted(user['records'], 'record')} in {counted(user['batches'], 'batch')}",
                "acks " + "/".join(map(str, user["acks"])),
                "/".join(user["compression"]) or None,
                "transactional " + ", ".join(user["transactional_ids"]) if user["transactional_ids"] else None,
                "idempotent" if user["idempotent"] and not user["transactional_ids"] else None,
                f"keys fit {user['partitioner']}" if user["partitioner"] else None,
                _exchanges(user),
            ]
            yield "  producer  " + _joined(facts)
            yield from _errors(user)
        for user in one["consumers"]:
            role = user["role"] if user["replica_id"] is None else f"follower {user['replica_id']}"
            facts = [
                _user(user),
                "group " + ", ".join(user["groups"]) if user["groups"] else None,
                f"{counted(user['records'], 'record')} {size_text(user['bytes'])}B",
                f"in {counted(user['requests'], 'Fetch')}",
                "read_committed" if "read_committed" in user["isolation"] else None,
                _exchanges(user),
            ]
            yield f"  {role.ljust(9)} " + _joined(facts)
            yield from _errors(user)


def groups(lines: Iterable[Line], clock: Clock) -> Iterator[str]:
    for one in lines:
        facts = [
            f"{one['kind']} group",
            f"of {one['protocol_type']}" if one["kind"] == "classic" and one["protocol_type"] else None,
            f"generation {one['generation']}" if one["generation"] is not None else None,
            one["protocol"],
            counted(one["rebalances"], "rebalance"),
            f"coordinator {one['coordinator']}",
            counted(one["commits"], "commit"),
        ]  # fmt: skip
        yield f"{one['group']}  {_joined(facts)}"
        yield from _errors(one)
        for generation in one["generations"]:
            leader = f", led by {generation['leader']}" if generation["leader"] else ""
            members = counted(len(generation["members"]), "member")
            began = f"  {clock(generation['time'])} generation {generation['generation']}"
            yield f"{began}: {members}{leader}  #{generation['exchange']}"
            for why in generation["why"]:
                yield f"      because {why}"
        for member in one["members"]:
            interval = member["heartbeat_interval_ms"]
            given = [f"{topic} {' '.join(map(str, numbers))}" for topic, numbers in member["assignment"].items()]
            facts = [
                f"{member['client_id']}@{member['host']}" if member["client_id"] else None,
                f"instance {member['instance_id']}" if member["instance_id"] else None,
                f"joined {clock(member['joined'])}" if member["joined"] else None,
                f"left {clock(member['left'])}" if member["left"] else None,
                f"heartbeat every {interval / 1000:.1f} s" if interval else None,
                ", ".join(given),
            ]  # fmt: skip
            yield f"  member {member['member_id']}  {_joined(facts)}"
        for event in one["events"][:SHOWN_EVENTS]:
            yield (
                f"  {clock(event['time'])} {event['event']} {event['member_id']} {event['detail']}".rstrip()
                + f"  #{event['exchange']}"
            )
        more = len(one["events"][SHOWN_EVENTS:]) + one["more_events"]
        if more:
            yield f"  {counted(more, 'more event')} (--json has them)"


def transactions(lines: Iterable[Line], clock: Clock) -> Iterator[str]:
    for one in lines:
        if one["schema"] == "kproxy.aborted_transaction/1":
            fetches = f"as {counted(len(one['exchanges']), 'Fetch')} told  #{one['exchanges'][0]}"
            aborted = f"producer {one['producer_id']} from offset {one['first_offset']} on"
            yield f"{one['topic']}-{one['partition']}  aborted: {aborted}, {fetches}"
            continue
        facts = [
            f"producer {one['producer_id']}/{one['producer_epoch']}",
            "producer not seen" if one["client_id"] is None else f"{one['client_id']}@{one['host']}",
            one["state"] + (f" after {one['duration_ms']:.1f} ms" if one["duration_ms"] is not None else ""),
            f"{counted(one['records'], 'record')} to {counted(len(one['partitions']), 'partition')}",
            "group " + ", ".join(one["groups"]) if one["groups"] else None,
            one["failure"],
        ]
        yield f"{one['transactional_id']}  {_joined(facts)}"
        for step in one["steps"]:
            yield f"  {clock(step['time'])} {step['step']}  #{step['exchange']}"


def connections(lines: Iterable[Line], clock: Clock) -> Iterator[str]:
    for one in lines:
        if one["schema"] == "kproxy.client/1":
            facts = [one["software"], "group " + ", ".join(one["groups"]) if one["groups"] else None]
            stopped = one["stopped_at"]
            facts.append(f"stopped at {stopped}" if stopped else None)
            yield f"{one['client_id'] or '(no client id)'}@{one['host']}  {_joined(facts)}".rstrip()
            for step in one["steps"]:
                latency = "-" if step["latency_ms"] is None else f"{step['latency_ms']:.1f} ms"
                end = "" if step["done"] else f"  {step['error'] or 'no answer'}"
                tries = f"  {step['attempts']} attempts" if step["attempts"] > 1 else ""
                yield f"  {clock(step['time'])} {step['api']} {latency}{tries}{end}  #{step['exchange']}"
            continue
        facts = [
            ", ".join(one["client_ids"]) or None,
            one["software"],
            "tls" if one["tls"] else None,
            _authentication(one["sasl"]),
            counted(one["exchanges"], "exchange"),
            "which alone shows that this is Kafka" if one["exchanges"] == 1 else None,
            f"{size_text(one['request_bytes'])}B > < {size_text(one['response_bytes'])}B",
            f"{one['in_flight_most']} in flight at most" if one["in_flight_most"] else None,
            f"{counted(one['errors'], 'error')} from #{one['first_error']} on" if one["errors"] else None,
            f"{one['unanswered']} unanswered" if one["unanswered"] else None,
        ]
        yield f"{one['connection']}  {one['client']} > {one['broker']}  {_joined(facts)}  #{one['first_exchange']}"


def _authentication(sasl: Mapping[str, Any] | None) -> str | None:
    if sasl is None:
        return None
    who = f"{sasl.get('principal', 'somebody')} by {sasl.get('mechanism', 'a mechanism that was not seen')}"
    times = f" {sasl['authentications']} times" if sasl["authentications"] > 1 else ""
    return f"{who}, {sasl['state']}{times}" + (f": {sasl['error']}" if "error" in sasl else "")


def cluster(lines: Iterable[Line], clock: Clock) -> Iterator[str]:
    for one in lines:
        if one["schema"] == "kproxy.cluster/1":
            controller = one["controller"]
            epoch = "" if one["controller_epoch"] is None else f" at epoch {one['controller_epoch']}"
            who = "not told" if controller is None else f"{controller}{epoch}"
            yield f"cluster {one['cluster_id'] or '(id not told)'}  controller {who}"
            for broker in one["brokers"]:
                yield f"  broker {broker['node_id']}  {broker['address']}" + (
                    f"  rack {broker['rack']}" if broker["rack"] else ""
                )
            if one["fetches"]:
                yield "  fetches: " + ", ".join(f"{count} {role}" for role, count in one["fetches"].items())
            continue
        about = f"{one['about']}: " if one["about"] and one["kind"] != "controller" else ""
        yield f"  {clock(one['time'])} {about}{one['text']}  {one['source']} #{one['exchange']}"


TEXTS: Final[Mapping[str, Callable[[Iterable[Line], Clock], Iterator[str]]]] = MappingProxyType({
    "topics": topics,
    "groups": groups,
    "transactions": transactions,
    "connections": connections,
    "cluster": cluster,
})  # fmt: skip
"""The function for each view of `captures.analysis.views.Views`; names are unescaped."""


def view_text(view: str, lines: Iterable[Line], clock: Clock = utc) -> Iterator[str]:
    """A view as lines of text, with control characters escaped."""
    return map(escape, TEXTS[view](lines, clock))


def _joined(facts: Iterable[str | None]) -> str:
    return "  ".join(fact for fact in facts if fact)


def _user(user: Line) -> str:
    return f"{user['client_id'] or '(no client id)'}@{user['host']}" + (
        f" {user['software']}" if user["software"] else ""
    )


def _errors(one: Line) -> Iterator[str]:
    """A line for each error code, with its first exchange."""
    for code, count in one["errors"].items():
        yield f"    {count} {errors.name(code)}  #{one['error_exchanges'][code]}"


def _exchanges(user: Line) -> str:
    return f"#{user['first_exchange']}"
