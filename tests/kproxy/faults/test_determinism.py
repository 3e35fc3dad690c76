"""The same rules, seed and requests give the same hits and bytes, however often they are tried."""

from __future__ import annotations

from tests.kproxy.faults.support import Tale, beaten, beating, produced, producing
from tests.support.playbook import ANYTHING

RULES = (
    "api == Produce => error NOT_LEADER_OR_FOLLOWER at partition == 1 not applied, p 0.3",
    "api == Produce => delay 500ms ±400ms, p 0.4 per client",
    "api == Heartbeat => error REBALANCE_IN_PROGRESS applied, every 3 per client",
    "api == Heartbeat => throttle 1s, p 0.1",
    "any topic == t => flip 20, once per partition",
)
TIMES, REQUESTS = 100, 12


def told(seed: int) -> tuple[list[int], bytes, bytes, list[tuple[int, str]]]:
    tale = Tale(*RULES, seed=seed)
    for number in range(REQUESTS):
        tale.story.client(producing(2 * number, 0, 1, client_id=f"app-{number % 2}"), ANYTHING)
        tale.story.broker(produced(2 * number, 0, 1), ANYTHING)
        tale.story.client(beating(2 * number + 1), ANYTHING).broker(beaten(2 * number + 1), ANYTHING).later(1, ANYTHING)
    return tale.hits, tale.story.to_client, tale.story.to_broker, tale.comments


def test_a_hundred_runs_are_alike() -> None:
    first = told(8)
    assert all(0 < hits < 2 * REQUESTS for hits in first[0])
    assert all(told(8) == first for _ in range(TIMES - 1))


def test_another_seed_gives_other_hits() -> None:
    assert told(8) != told(9)
