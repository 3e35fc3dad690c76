"""Formats groups as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kproxy.captures.analysis.display.filters import own
from kproxy.captures.analysis.display.parts import assignment_text, error_lines, joined, lag_lines, lag_text
from kproxy.captures.views import Clock, Kind, Line
from kproxy.decoders.plurals import counted

SHOWN_EVENTS: Final = 40
"""Maximum number of events of a group in the text; --json has all that were kept."""


def text(lines: Iterable[Line], clock: Clock) -> Iterator[str]:
    for one in lines:
        facts = [
            f"{one['kind']} group",
            f"of {one['protocol_type']}" if one["kind"] == "classic" and one["protocol_type"] else None,
            f"generation {one['generation']}" if one["generation"] is not None else None,
            one["protocol"],
            counted(one["rebalances"], "rebalance"),
            f"coordinator {one['coordinator']}",
            counted(one["commits"], "commit"),
            lag_text(one["lag"]) if one["lag"] else None,
        ]  # fmt: skip
        yield f"{one['group']}  {joined(facts)}"
        yield from error_lines(one)
        yield from lag_lines(one["lag"])
        for generation in one["generations"]:
            leader = f", led by {generation['leader']}" if generation["leader"] else ""
            members = counted(len(generation["members"]), "member")
            began = f"  {clock(generation['time'])} generation {generation['generation']}"
            yield f"{began}: {members}{leader}  #{generation['exchange']}"
            for why in generation["why"]:
                yield f"      because {why}"
        for member in one["members"]:
            interval = member["heartbeat_interval_ms"]
            facts = [
                f"{member['client_id']}@{member['host']}" if member["client_id"] else None,
                f"instance {member['instance_id']}" if member["instance_id"] else None,
                f"joined {clock(member['joined'])}" if member["joined"] else None,
                f"left {clock(member['left'])}" if member["left"] else None,
                f"heartbeat every {interval / 1000:.1f} s" if interval else None,
                assignment_text(member["assignment"]),
            ]  # fmt: skip
            yield f"  member {member['member_id']}  {joined(facts)}"
        for event in one["events"][:SHOWN_EVENTS]:
            yield (
                f"  {clock(event['time'])} {event['event']} {event['member_id']} {event['detail']}".rstrip()
                + f"  #{event['exchange']}"
            )
        more = len(one["events"][SHOWN_EVENTS:]) + one["more_events"]
        if more:
            yield f"  {counted(more, 'more event')} (--json has them)"


KINDS: Final[Mapping[str, Kind]] = {
    "kproxy.group/1": Kind(("group",), own("group", "group")),
}
