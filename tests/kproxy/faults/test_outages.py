"""Black holes and brokers that refuse connections."""

from __future__ import annotations

import gc

import pytest

from tests.kproxy.faults.support import Tale, beaten, beating, produced, producing
from tests.support.playbook import ANYTHING, PASSES, RESET


class Door:
    """A further connection to a broker, and what a rule has done to it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def vanish(self) -> None:
        self.done.append("vanish")

    def sever(self) -> None:
        self.done.append("sever")


def met(tale: Tale, broker: str = "b:2") -> Door:
    door = Door()
    tale.engine.opened(door, broker)
    return door


def test_a_connection_vanishes() -> None:
    tale = Tale("api == Produce => blackhole connection, nth 2")
    other = met(tale)
    tale.story.client(producing(1), PASSES).client(producing(2)).client(beating(3))
    tale.story.broker(produced(1)).later(1e6).client(producing(4), cut=1)
    assert tale.acted.idle
    tale.story.broker_ended().client_ended().counted()
    assert (tale.hits, tale.said, other.done, met(tale).done) == ([1], [], [], [])
    assert [comment for _, comment in tale.comments] == [
        "kproxy did not forward this to the broker:\nrule-1: blackhole connection"
    ]


def test_what_came_before_in_the_same_read_passes() -> None:
    tale = Tale("api == Produce => blackhole")
    tale.story.client(beating(1) + producing(2) + beating(3), ("to broker", beating(1))).broker(beaten(1)).counted()


def test_what_waits_vanishes_too() -> None:
    tale = Tale("api == Heartbeat => delay 1s", "api == Produce => blackhole")
    tale.story.client(beating(1), PASSES).broker(beaten(1)).client(producing(2)).later(2).counted()


@pytest.mark.parametrize(("action", "how"), [("blackhole broker", "vanish"), ("refuse", "sever")])
def test_a_broker_is_gone_for_all_connections(action: str, how: str) -> None:
    tale = Tale(f"gone: api == Produce => {action}, for 10s")
    open_before, elsewhere = met(tale), met(tale, "b:3")
    tale.story.client(producing(1), ANYTHING)
    assert (open_before.done, elsewhere.done) == ([how], [])
    assert (met(tale).done, met(tale, "b:3").done) == ([how], [])
    tale.story.later(10, ANYTHING)
    assert met(tale).done == []


@pytest.mark.parametrize("what", ["remove", "pause", "release", "reset"])
def test_a_broker_is_back_when_its_rule_does_not_act_any_more(what: str) -> None:
    tale = Tale("gone: api == Produce => refuse")
    tale.story.client(producing(1), ANYTHING)
    assert met(tale).done == ["sever"]
    getattr(tale.engine, what)("gone")
    assert met(tale).done == []


def test_a_refused_client_is_reset() -> None:
    tale = Tale("api == Produce => refuse")
    tale.story.client(beating(1), PASSES).client(producing(2) + beating(3))
    assert tale.acted.due == 0
    tale.story.later(0, RESET).client(beating(4)).broker(beaten(1)).counted()


def test_connections_are_not_kept_alive() -> None:
    tale = Tale("api == Produce => refuse")
    door = met(tale)
    seen = door.done
    del door
    gc.collect()
    tale.story.client(producing(1), ANYTHING)
    assert seen == []
