"""How often the user is told the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kproxy.core.commands import Notice
from kproxy.core.plans import Plans, Watch
from kproxy.relay.link import Link
from tests.kproxy.core.frames import DEFINITIONS


def topics(notice: Notice) -> set[str]:
    """Those of a notice about two brokers: what has the same topic is told once."""
    found: set[str] = set()
    for port in (9092, 9093):
        relay = SimpleNamespace(warnings=SimpleNamespace(warn=lambda topic, _: found.add(topic)))
        link: Any = SimpleNamespace(client=SimpleNamespace(peer=None), target=("kafka", port), _relay=relay)
        Link._notice(link, notice, 1)
    return found


def test_a_quorum_is_told_of_once_for_all_brokers() -> None:
    watch = Plans(DEFINITIONS)._make(55, 2)
    assert isinstance(watch, Watch)
    assert topics(Notice(watch.topic, watch.text, watch.once)) == {"controllers-DescribeQuorum v2"}


def test_other_notices_are_of_their_broker() -> None:
    assert topics(Notice("topic", "text")) == {"topic-upstream kafka:9092", "topic-upstream kafka:9093"}
