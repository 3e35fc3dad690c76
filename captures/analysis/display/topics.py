"""Formats topics as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kproxy.captures.analysis.display.filters import equal
from kproxy.captures.analysis.display.parts import error_lines, first_exchange, joined, lag_lines, lag_text, user_text
from kproxy.captures.text import size_text
from kproxy.captures.views import Clock, Kind, Line
from kproxy.decoders.plurals import counted


def text(lines: Iterable[Line], _clock: Clock) -> Iterator[str]:
    for one in lines:
        yield (
            f"{one['topic']}  {counted(one['partitions'], 'partition')}"
            + (f"  id {one['topic_id']}" if one["topic_id"] else "")
            + f"  in {counted(one['records_in'], 'record')} {size_text(one['bytes_in'])}B"
            + f"  out {counted(one['records_out'], 'record')} {size_text(one['bytes_out'])}B"
        )
        for user in one["producers"]:
            facts = [
                user_text(user),
                f"{counted(user['records'], 'record')} in {counted(user['batches'], 'batch')}",
                "acks " + "/".join(map(str, user["acks"])),
                "/".join(user["compression"]) or None,
                "transactional " + ", ".join(user["transactional_ids"]) if user["transactional_ids"] else None,
                "idempotent" if user["idempotent"] and not user["transactional_ids"] else None,
                f"keys fit {user['partitioner']}" if user["partitioner"] else None,
                first_exchange(user),
            ]
            yield "  producer  " + joined(facts)
            yield from error_lines(user)
        for user in one["consumers"]:
            role = user["role"] if user["replica_id"] is None else f"follower {user['replica_id']}"
            facts = [
                user_text(user),
                "group " + ", ".join(user["groups"]) if user["groups"] else None,
                f"{counted(user['records'], 'record')} {size_text(user['bytes'])}B",
                f"in {counted(user['requests'], 'Fetch')}",
                "read_committed" if "read_committed" in user["isolation"] else None,
                first_exchange(user),
            ]
            yield f"  {role.ljust(9)} " + joined(facts)
            yield from error_lines(user)
        for user in one["groups"]:
            yield f"  group     {user['group']}  {lag_text(user['lag'])}"
            yield from (f"  {line}" for line in lag_lines(user["lag"]))


def _users(users: Iterable[Line], own: Sequence[str]) -> Iterator[list[str]]:
    """Display filters for each user of a topic, then for each of the user's error codes."""
    for user in users:
        found = [*own, *([equal("client.id", user["client_id"])] if user["client_id"] else [])]
        yield found
        for code in user["errors"]:
            yield [*found, equal("error", code)]


def _filters(line: Line) -> Iterator[list[str]]:
    own = [equal("topic", line["topic"])]
    yield own
    yield from _users([*line["producers"], *line["consumers"]], own)


KINDS: Final[Mapping[str, Kind]] = {
    "kproxy.topic/1": Kind(("topic",), _filters),
}
