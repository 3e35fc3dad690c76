"""The problems that the demo plants, and which finding explains each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kproxy.runs.demo import BROKERS

TOPIC: Final = "stock"
"""The topic for whose partition 0 clients are told a wrong leader."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in words, the id of the rule that finds it, and the fault of the proxy that causes it.

    `fault` is empty if the application itself is at fault; {wrong} in it stands for a node that does not lead TOPIC-0.
    """

    finding: str
    text: str
    fault: str = ""


PROBLEMS: Final = (
    Problem(
        "leader.stale",
        "inventory is told a wrong leader of stock-0, so its records are refused",
        f"wrong-leader: client.id == inventory => leader {TOPIC}-0 = {{wrong}}",
    ),
    Problem("group.poll_gap", "mailer-2 works for 5 seconds between polls; its max.poll.interval.ms is 3 seconds"),
    Problem(
        "latency.throttled",
        "reports exceeds a quota",
        'quota: client.id == reports and api == Fetch => answer {"throttleTimeMs": 1500}, every 30',
    ),
)


def faults(leader: int) -> tuple[str, ...]:
    """The rules for the proxy, where `leader` leads partition 0 of TOPIC."""
    return tuple(one.fault.replace("{wrong}", str(leader % BROKERS + 1)) for one in PROBLEMS if one.fault)
