"""What became of one record: which Produce wrote it, which Fetch delivered it to whom, which commit went past it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kproxy.decoders.exchange_json import timestamp
from kproxy.library.capture import Capture
from kproxy.library.exchange import Exchange


def steps(capture: Capture, topic: str, partition: int, offset: int) -> Iterator[dict[str, Any]]:
    """The exchanges in which a record was written, delivered or committed, in the order of the capture.

    Each is an object; `what` is "written" or "delivered", with key and value (base64 if they are not text); "committed"
    for a group's first commit beyond the record, with the group and its committed offset; or "committed back" for a
    later commit of the group that is not beyond the record.
    """
    behind: dict[str, bool] = {}
    wanted = f"topic == {json.dumps(topic)} and api in (Produce, Fetch, OffsetCommit, TxnOffsetCommit)"
    for one in capture.where(wanted):
        if one.api in {"Produce", "Fetch"}:
            record = _record(one, topic, partition, offset)
            if record is not None:
                what = "written" if one.api == "Produce" else "delivered"
                yield {"what": what, **_place(one), "key": record["key"], "value": record["value"]}
            continue
        group, committed = _commit(one, topic, partition)
        if group is None or committed is None or one.errors:
            continue
        beyond = committed > offset
        if beyond != behind.get(group, False):
            behind[group] = beyond
            what = "committed" if beyond else "committed back"
            yield {"what": what, **_place(one), "group": group, "committed_offset": committed}


def _place(one: Exchange) -> dict[str, Any]:
    place = {"exchange": one.number, "time": timestamp(one.time_ns), "client_id": one.client_id, "client": one.client}
    return {**place, "errors": list(one.errors)} if one.errors else place


def _record(one: Exchange, topic: str, partition: int, offset: int) -> Mapping[str, Any] | None:
    """The record in an exchange; None if absent, of an aborted transaction, or below the offset of the Fetch."""
    for record in one.records():
        at = record.get("assignedOffset", record["offset"] if one.api == "Fetch" else None)
        if (record["topic"], record["partition"], at) == (topic, partition, offset) and not record.get("skipped"):
            return record
    return None


def _commit(one: Exchange, topic: str, partition: int) -> tuple[str | None, int | None]:
    """(group, committed offset) of a partition; (None, None) if the request does not commit it."""
    body = one.request or {}
    topics = body.get("topics") or []
    for found in topics:
        # From version 10 on, a commit has topic ids. The exchange has this topic, so a single id is this topic's.
        if found.get("name", topic if len(topics) == 1 else None) == topic:
            for commit in found["partitions"]:
                if commit["partitionIndex"] == partition:
                    return body["groupId"], commit["committedOffset"]
    return None, None
