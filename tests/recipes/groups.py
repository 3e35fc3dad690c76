"""Faults of group members: they stop polling, die, hold up the others."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import closing

from confluent_kafka import Consumer

from tests.recipes.recipe import Recipe, Stage, idle

MEMBER = """
import sys
from confluent_kafka import Consumer
bootstrap, client, group, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "client.id": client, "group.id": group,
                     "session.timeout.ms": 6000, "heartbeat.interval.ms": 1000})
consumer.subscribe([topic])
while True:
    consumer.poll(0.5)
    print(len(consumer.assignment()), flush=True)
"""
"""A member in a process of its own, which can be killed; it prints how many partitions it has."""


def poll_gap(stage: Stage) -> None:
    """A consumer that works for 8 s on a record while max.poll.interval.ms is 6 s."""
    stage.topic("orders", 2, records=20)
    with closing(slow(stage)) as consumer:
        idle(consumer, 4)
        time.sleep(8)
        idle(consumer, 5)


def slow(stage: Stage, client_id: str = "slow") -> Consumer:
    return stage.consumer(client_id, "shop", "orders", max_poll_interval_ms=6_000, session_timeout_ms=6_000)


def killed(stage: Stage) -> None:
    """Two members of which one is killed by SIGKILL."""
    stage.topic("orders", 4)
    with closing(stage.consumer("survivor", "shop", "orders", heartbeat_interval_ms=1_000)) as consumer:
        arguments = [sys.executable, "-c", MEMBER, stage.bootstrap, "victim", "shop", "orders"]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as victim:
            assert victim.stdout is not None
            poller = polling(consumer)
            while (line := victim.stdout.readline()) and line.strip() != "2":
                pass
            time.sleep(3)
            victim.kill()
        time.sleep(12)
        poller.set()


def polling(consumer: Consumer) -> threading.Event:
    """Poll in a thread, until the event that is returned is set."""
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            consumer.poll(0.2)

    threading.Thread(target=poll, daemon=True).start()
    return stop


def slow_rejoin(stage: Stage) -> None:
    """A third member joins while one of the two sleeps: both others wait for the sleeper."""
    stage.topic("orders", 3, records=30)
    settings = {"max_poll_interval_ms": 30_000, "session_timeout_ms": 10_000, "heartbeat_interval_ms": 1_000}
    awake = stage.consumer("awake", "shop", "orders", **settings)
    sleeper = stage.consumer("sleeper", "shop", "orders", **settings)
    stop = polling(awake)
    until = time.monotonic() + 30
    while len(sleeper.assignment()) != 1 and time.monotonic() < until:
        sleeper.poll(0.5)
    idle(sleeper, 4)
    with closing(stage.consumer("late", "shop", "orders", **settings)) as late:
        stopped = polling(late)
        time.sleep(9)
        idle(sleeper, 6)
        stopped.set()
        time.sleep(0.5)
    stop.set()
    sleeper.close()
    time.sleep(0.5)
    awake.close()


def two_of_one_name(stage: Stage) -> None:
    """Two static members with one group.instance.id."""
    stage.topic("orders", 2)
    settings = {"group_instance_id": "pod-1", "heartbeat_interval_ms": 1_000}
    first = stage.consumer("first", "shop", "orders", **settings)
    idle(first, 6)
    second = stage.consumer("second", "shop", "orders", **settings)
    stop = polling(second)
    idle(first, 6)
    stop.set()
    time.sleep(0.5)
    first.close()
    second.close()


RECIPES = {
    "group.poll_gap": Recipe(poll_gap, "slow@127.0.0.1", live=True),
    "group.member_vanished": Recipe(killed, "victim"),
    "group.slow_rejoin": Recipe(slow_rejoin, "sleeper@127.0.0.1"),
    "group.static_clash": Recipe(two_of_one_name, "pod-1"),
}
