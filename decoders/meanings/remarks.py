"""Explains facts that follow from several fields of an exchange: why a Fetch was answered, lag, missing leaders."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from kproxy.decoders.batches import batch as batches
from kproxy.decoders.compiler import Values
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.plurals import counted
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.schema import errors

WAIT_SHARE: Final = 0.9
"""A Fetch that takes at least this share of its max wait counts as a long poll; its latency is then no sign of a slow
broker.
"""

_OFFSET: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on the field `path` of one side's body ("": on the whole body); `title` is the subject in a word."""

    title: str
    text: str
    where: Literal["request", "response"]
    path: str


@dataclass(frozen=True, slots=True)
class _Bodies:
    """The bodies of request and response, None if missing; `elapsed` is the latency in ns, None if unknown."""

    asked: Values | None
    answered: Values | None
    elapsed: int | None
    knowledge: Knowledge

    def topic(self, values: Values) -> str:
        """The topic name in a struct; if only the topic id is known, the id in base64url."""
        name = values.get("topic") or values.get("name")
        if isinstance(name, str):
            return name
        topic_id = bytes(values.get("topicId") or b"")
        return self.knowledge.topic(topic_id) or urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def remarks(
    api_key: int | None,
    asked: Values | None,
    answered: Values | None,
    elapsed: int | None = None,
    knowledge: Knowledge | None = None,
) -> list[Remark]:
    """The remarks on an exchange; `asked` and `answered` are the decoded bodies of request and response.

    `elapsed` is the latency in nanoseconds; `knowledge` knows the names of topic ids.
    """
    bodies = _Bodies(asked, answered, elapsed, knowledge or Knowledge())
    return [remark for make in MAKERS.get(api_key, ()) for remark in make(bodies)]


def wait_over(max_wait_ms: Any, elapsed: int | None) -> bool:
    """Whether the broker delayed its response to a Fetch until the max wait was over.

    `elapsed` is the exchange's latency in nanoseconds.
    """
    if not isinstance(max_wait_ms, int) or max_wait_ms <= 0 or elapsed is None:
        return False
    return elapsed >= max_wait_ms * 1_000_000 * WAIT_SHARE


def _no_reply(bodies: _Bodies) -> Iterator[Remark]:
    if bodies.asked is not None and bodies.asked["acks"] == 0:
        text = "acks is 0: no response comes; instead of an error the broker closes the connection"
        yield Remark("no reply", text, "request", "acks")


def _why_answered(bodies: _Bodies) -> Iterator[Remark]:
    if bodies.asked is not None and bodies.answered is not None:
        yield Remark("answered", _reason(bodies, bodies.asked, bodies.answered), "response", "")


def _reason(bodies: _Bodies, asked: Values, answered: Values) -> str:
    """Why the broker answered a Fetch, as far as the bodies show it; of several reasons, errors come first."""
    if error := answered.get("errorCode"):
        return f"because of error {error} {errors.name(error)}"
    size = 0
    for name, _, partition in _fetched(bodies, answered):
        place = f"{name}-{partition['partitionIndex']}"
        if error := partition["errorCode"]:
            return f"because of error {error} {errors.name(error)} of {place}"
        if (partition.get("divergingEpoch") or {}).get("endOffset", -1) >= 0:
            return f"because the logs diverge (diverging epoch of {place})"
        if partition.get("preferredReadReplica", -1) >= 0:
            return f"because replica {partition['preferredReadReplica']} is nearer for {place}"
        size += len(partition["records"] or b"")
    least, wait = asked["minBytes"], asked["maxWaitMs"]
    in_session = asked.get("sessionEpoch", -1) > 0
    # A fetch session without partitions is ended by the broker.
    if not asked["topics"] and (not in_session or not answered.get("sessionId")):
        return "because no partition was requested" + (": the session is empty" if in_session else "")
    if wait <= 0:
        return "at once: max wait is 0"
    if least <= 0:
        return "at once: min bytes is 0"
    if size >= least:
        return f"because min bytes were reached: {size:,} of {least:,}"
    if wait_over(wait, bodies.elapsed):
        return f"because the wait of {wait} ms was over: {size:,} of {least:,} min bytes"
    return (
        f"with {size:,} of {least:,} min bytes, for a reason that the bytes do not show: "
        "a new segment, leader or high watermark, or a quota"
    )


def _fetched(bodies: _Bodies, answered: Values) -> Iterator[tuple[str, str, Values]]:
    """(topic name, path, values) of each partition in a Fetch response."""
    for i, topic in enumerate(answered["responses"]):
        name = bodies.topic(topic)
        for j, partition in enumerate(topic["partitions"]):
            yield name, f"responses[{i}].partitions[{j}]", partition


def _lag(bodies: _Bodies) -> Iterator[Remark]:
    """Remarks on a consumer's lag in offsets; a follower's lag has other causes and gets no remark."""
    asked, answered = bodies.asked, bodies.answered
    if asked is None or answered is None:
        return
    if asked.get("replicaId", -1) != -1 or (asked.get("replicaState") or {}).get("replicaId", -1) != -1:
        return
    wanted = {
        (bodies.topic(topic), partition["partition"]): partition["fetchOffset"]
        for topic in asked["topics"]
        for partition in topic["partitions"]
    }
    for name, path, partition in _fetched(bodies, answered):
        index, high = partition["partitionIndex"], partition["highWatermark"]
        offsets = [wanted.get((name, index)), _after(partition["records"] or b"")]
        following = max((offset for offset in offsets if offset is not None), default=None)
        if following is None or high < 0 or partition["errorCode"]:
            continue
        lag = max(0, high - following)
        text = f"{name}-{index}: {lag:,}, from the next offset {following:,} to the high watermark {high:,}"
        stable = partition.get("lastStableOffset", -1)
        if asked.get("isolationLevel") == 1 and 0 <= stable < high:
            text += f"; open transactions hold back {high - max(stable, following):,} of them"
        yield Remark("lag", text, "response", f"{path}.highWatermark")


def _after(records: Buffer) -> int | None:
    """The offset after the last complete batch; None if there is no complete batch."""
    found = batches.parse(records, check=False).batches
    if not found:
        return None
    last = found[-1]
    # A compressed message set's outer message has the offset of the last inner one.
    (offset,) = _OFFSET.unpack_from(records, last.start)
    return int(offset) + int(last.header.get("lastOffsetDelta", 0)) + 1


def _replicas(bodies: _Bodies) -> Iterator[Remark]:
    """Remarks on partitions without a leader, and on replicas that are not in sync."""
    for i, topic in enumerate((bodies.answered or {}).get("topics", ())):
        name = bodies.topic(topic)
        for j, partition in enumerate(topic["partitions"]):
            place, path = f"{name}-{partition['partitionIndex']}", f"topics[{i}].partitions[{j}]"
            if partition["leaderId"] < 0:
                yield Remark("no leader", f"{place} has no leader", "response", f"{path}.leaderId")
            behind = sorted(set(partition["replicaNodes"]) - set(partition["isrNodes"]))
            if behind:
                listed = ", ".join(map(str, behind))
                yield Remark("not in sync", f"{place}: replicas {listed}", "response", f"{path}.isrNodes")


def _group_leader(bodies: _Bodies) -> Iterator[Remark]:
    answered = bodies.answered
    if answered is None or not answered["leader"]:
        return
    if answered["leader"] == answered["memberId"]:
        text = f"this member leads the group and assigns for {_members(answered['members'])}"
        if answered.get("skipAssignment"):
            text = "this member leads the group, but must not assign again"
    else:
        text = f"{answered['leader']} leads the group; this member follows and does not get the list of members"
    yield Remark("group leader", text, "response", "leader")


def _assigner(bodies: _Bodies) -> Iterator[Remark]:
    if bodies.asked is None:
        return
    text = "a follower waits for the leader's assignment"
    if assignments := bodies.asked["assignments"]:
        text = f"the group's leader assigns to {_members(assignments)}"
    yield Remark("group leader", text, "request", "assignments")


def _members(some: Sequence[Any]) -> str:
    return counted(len(some), "member")


MAKERS: Final[dict[int | None, tuple[Callable[[_Bodies], Iterator[Remark]], ...]]] = {
    0: (_no_reply,),
    1: (_why_answered, _lag),
    3: (_replicas,),
    11: (_group_leader,),
    14: (_assigner,),
    75: (_replicas,),
}
"""By API key: the functions that make the remarks."""
