"""Answers that say what is not so about the cluster: API versions that are not offered, leaders that do not lead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.faults.rule import Leader, Versions


def told(action: Versions | Leader, body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The values of an answer with what the action says; None if the answer has nothing about its subject."""
    new = _versions(action, body) if isinstance(action, Versions) else _leader(action, body)
    return None if new == body else new


def _versions(action: Versions, body: Mapping[str, Any]) -> dict[str, Any]:
    offered = []
    for one in body["apiKeys"]:
        if one["apiKey"] != action.api_key:
            offered.append(one)
        elif not action.hides:
            offered.append({**one, "minVersion": action.low, "maxVersion": action.high})
    return {**body, "apiKeys": offered}


def _leader(action: Leader, body: Mapping[str, Any]) -> dict[str, Any]:
    topics = []
    for topic in body["topics"]:
        partitions = topic["partitions"]
        if topic["name"] == action.topic:
            partitions = [
                {**one, "leaderId": action.node} if one["partitionIndex"] == action.partition else one
                for one in partitions
            ]
        topics.append({**topic, "partitions": partitions})
    return {**body, "topics": topics}
