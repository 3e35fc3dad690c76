"""Tries a program in a scenario: runs a relay with the rules, then the program, and checks the records."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

from kproxy.library.proxy import Proxy
from kproxy.library.traffic import Traffic
from kproxy.torture.canary import Canary, CanaryError, Written
from kproxy.torture.program import Ended, run
from kproxy.torture.scenario import Scenario

RECORDS: Final = 40
TOLD: Final = 12
"""Maximum number of exchanges that a result names."""
SIDES: Final = ("request", "response")
_LARGEST_READ: Final = 1 << 20


class Verdict(StrEnum):
    PASSED = "passed"
    TOLD = "told"
    """The program ended with an error, which the scenario allows."""
    FAILED = "failed"
    LOST = "lost"
    DOUBLED = "doubled"
    HUNG = "hung"
    CRASHED = "crashed"
    NOT_MET = "not met"

    @property
    def good(self) -> bool:
        return self in {Verdict.PASSED, Verdict.TOLD}


@dataclass(slots=True)
class Result:
    """What a program did in a scenario.

    `hits` counts how often the rules acted. `recovered` is the time in seconds from the first action of a rule to the
    end of the program, `seconds` the running time of the program. `story` names exchanges from the first on which a
    rule acted, as "#12 Produce* (NOT_LEADER_OR_FOLLOWER)" with a star where a rule acted; the numbers are those in
    `capture`, if that was kept. `notes` explain the verdict.
    """

    scenario: str
    verdict: Verdict
    hits: int = 0
    exit_code: int | None = None
    seconds: float = 0.0
    recovered: float | None = None
    notes: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    capture: str | None = None
    output: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario,
            "verdict": str(self.verdict),
            "hits": self.hits,
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 3),
            "recovered": None if self.recovered is None else round(self.recovered, 3),
            "notes": self.notes,
            "story": self.story,
            "capture": self.capture,
            "output": self.output,
        }


class _Clock:
    """Notes when the rules first acted, by asking the relay."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._first: float | None = None

    @property
    def hits(self) -> int:
        return sum(int(rule["hits"]) for rule in self._proxy.rules().values())

    def look(self) -> None:
        if self._first is None and self.hits:
            self._first = time.monotonic()

    def since(self, end: float) -> float | None:
        return None if self._first is None else max(0.0, end - self._first)


@dataclass(frozen=True, slots=True)
class Bench:
    """How programs are tried: the cluster, whether it is librdkafka's mock, the time limit, the folder for captures."""

    bootstrap: str
    mock: bool
    seconds: float
    keep: Path | None = None

    def trial(self, scenario: Scenario, command: Sequence[str]) -> Result:
        """Runs the program in the scenario. Raises CanaryError, OSError, StartError."""
        token = secrets.token_hex(4)
        topic = f"kproxy-{scenario.name}-{token}"
        asyncio.run(self._prepare(topic, scenario))
        with tempfile.TemporaryDirectory(prefix="kproxy-torture-") as folder:
            read = Path(folder) / "read"
            env = {
                "KPROXY_SCENARIO": scenario.name,
                "KPROXY_ROLE": scenario.role,
                "KPROXY_TOPIC": topic,
                "KPROXY_GROUP": f"{topic}-group",
                "KPROXY_TRANSACTIONAL_ID": f"{topic}-id",
                "KPROXY_RECORDS": str(RECORDS),
                "KPROXY_READ": str(read),
            }
            proxy = Proxy(self.bootstrap, Path(folder))
            try:
                for rule in scenario.rules:
                    proxy.add(f"{rule.name}: {rule.text}")
                clock = _Clock(proxy)
                ended = run(command, {"KPROXY_BOOTSTRAP": proxy.bootstrap, **env}, self.seconds, clock.look)
                recovered = clock.since(time.monotonic())
                result = Result(scenario.name, Verdict.PASSED, clock.hits, ended.code, ended.seconds, recovered)
                result.output = ended.output
                result.story = self._story(proxy, result, scenario, f"{scenario.name}-{token}")
            finally:
                proxy.stop()
            seen = _read(read) if scenario.role == "consume" else None
        self._judge(result, scenario, ended, asyncio.run(self._found(topic, scenario, result)), seen)
        return result

    async def _prepare(self, topic: str, scenario: Scenario) -> None:
        async with Canary(self.bootstrap, topic, mock=self.mock) as canary:
            await canary.create()
            if scenario.role == "consume":
                await canary.write(RECORDS, aborted=scenario.aborted and not self.mock)

    def _story(self, proxy: Proxy, result: Result, scenario: Scenario, name: str) -> list[str]:
        """The first TOLD lines on what the client did since the first fault; keeps the capture if `keep` is given."""
        names = {rule.name for rule in scenario.rules}
        traffic = Traffic(proxy)
        try:
            if self.keep is not None:
                self.keep.mkdir(parents=True, exist_ok=True)
                path = self.keep / f"{name}.pcapng"
                traffic.copy(0, path)
                result.capture = str(path)
            return list(islice(_since_first_hit(traffic.since(0, ""), names), TOLD))
        finally:
            traffic.close()

    async def _found(self, topic: str, scenario: Scenario, result: Result) -> Written | None:
        """The content of the topic; None if it cannot be read.

        A consumer that reports success without committing all of it gets the verdict FAILED.
        """
        try:
            async with Canary(self.bootstrap, topic, mock=self.mock) as canary:
                written = await canary.read()
                if scenario.role == "consume" and result.exit_code == 0:
                    committed = await canary.committed(f"{topic}-group")
                    behind = {one: end for one, end in written.ends.items() if committed.get(one, -1) < end}
                    if behind and not self.mock:
                        result.notes.append(f"offsets not committed to the end in {len(behind)} partitions")
                        result.verdict = Verdict.FAILED
                return written
        except CanaryError as error:
            result.notes.append(f"the canary topic cannot be read: {error}")
            return None

    @staticmethod
    def _judge(
        result: Result, scenario: Scenario, ended: Ended, written: Written | None, seen: list[str] | None
    ) -> None:
        """Decides the verdict, and notes what is lost, doubled or out of order."""
        by_partition = {0: seen} if seen is not None else written.values if written is not None else {}
        counted = Counter(value for values in by_partition.values() for value in values)
        expected = {str(number) for number in range(RECORDS)}
        lost = len(expected - counted.keys())
        doubled = sum(counted[value] > 1 for value in expected)
        foreign = len(counted.keys() - expected)
        if lost and by_partition:
            result.notes.append(f"{lost} of {RECORDS} records are missing")
        if doubled:
            result.notes.append(f"{doubled} records {'were read again' if seen is not None else 'are there twice'}")
        if foreign:
            result.notes.append(f"{foreign} values that nobody wrote, or that were aborted")
        if seen is None and (descents := sum(map(_descents, by_partition.values()))):
            result.notes.append(f"records are out of order in {descents} places")
        # A group may read a record again after a fault (at-least-once delivery); the log must hold each record once.
        twice = bool(doubled) and seen is None
        if not result.hits:
            result.verdict = Verdict.NOT_MET
        elif ended.code is None:
            result.verdict = Verdict.HUNG
        elif ended.code < 0:
            result.verdict = Verdict.CRASHED
            result.notes.append(f"ended by signal {-ended.code}")
        elif twice:
            result.verdict = Verdict.DOUBLED
        elif ended.code:
            result.verdict = Verdict.TOLD if scenario.may_fail else Verdict.FAILED
            result.notes.append(f"ended with exit code {ended.code}")
        elif written is None and seen is None:
            result.verdict = Verdict.FAILED
        elif lost:
            result.verdict = Verdict.LOST
        elif foreign:
            result.verdict = Verdict.FAILED


def _since_first_hit(lines: Iterable[Mapping[str, Any]], rules: AbstractSet[str]) -> Iterator[str]:
    """Yields a few words on each exchange from the first on which a rule acted; equal neighbours appear once."""
    begun = False
    last = ""
    for line in lines:
        acted = any(_by_rule(comment, rules) for side in SIDES for comment in (line[side] or {}).get("comments", ()))
        begun = begun or acted
        errors = ", ".join(line["error_codes"])
        said = f"{line['api']}{'*' if acted else ''}{f' ({errors})' if errors else ''}"
        if begun and said != last:
            yield f"#{line['exchange']} {said}"
            last = said


def _by_rule(comment: str, rules: AbstractSet[str]) -> bool:
    """Whether kproxy's comment on a frame names a rule: its lines are "NAME: what it did"."""
    return any(said.partition(": ")[0] in rules for said in comment.splitlines())


def _descents(values: list[str]) -> int:
    numbers = [int(value) for value in dict.fromkeys(values) if value.isdecimal()]
    return sum(later < earlier for earlier, later in pairwise(numbers))


def _read(path: Path) -> list[str]:
    """The values that a consumer says it has read, one a line; [] if it wrote no file."""
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_READ).decode(errors="replace").split()
    except OSError:
        return []
