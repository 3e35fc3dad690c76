"""The guardian's life, with programs that only pretend to be iptables and ip."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kproxy.runs.launcher import wait_until
from kproxy.transparent import netfilter
from kproxy.transparent.guard import Guard
from kproxy.transparent.rules import Rules
from tests.kproxy.transparent.kernel import Kernel
from tests.support.patience import SECONDS

pytestmark = pytest.mark.timeout(60)

PORT = 20000 + os.getpid() % 10000 * 4
"""The first of a few whose claims no other run of these tests holds."""
RULES = Rules("tproxy", 19092, clients="remote")
PLACES = {"ip -4 rule", "ip -4 route", "ip -6 rule", "ip -6 route", "iptables mangle", "ip6tables mangle"}


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel(tmp_path)
    monkeypatch.setenv("PATH", made.path)
    monkeypatch.setattr(netfilter, "_PATH", made.path)
    return made


class Guardian:
    def __init__(self, rules: Rules = RULES, *, install: bool = True) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kproxy.transparent.guardian"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.say(json.dumps({"rules": asdict(rules), "install": install}))

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def let_go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture
def guardian(kernel: Kernel) -> Iterator[Guardian]:
    assert kernel.rules == {}
    made = Guardian()
    yield made
    made.close()


def test_it_installs_and_removes(kernel: Kernel, guardian: Guardian) -> None:
    assert guardian.hear() == {"installed": []}
    assert set(kernel.rules) == PLACES
    guardian.say("release")
    assert guardian.hear() == {"released": True}
    assert "TPROXY" not in str(kernel.rules)
    assert "--transparent" in str(kernel.rules)
    guardian.let_go()
    assert guardian.hear() == {"removed": True}
    assert guardian.process.wait(SECONDS) == 0
    assert kernel.rules == {}


def test_signals_do_not_end_it(kernel: Kernel, guardian: Guardian) -> None:
    guardian.hear()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        guardian.process.send_signal(number)
    guardian.say("release")
    assert guardian.hear() == {"released": True}
    assert set(kernel.rules) == PLACES


def test_nobody_needs_to_listen(kernel: Kernel, guardian: Guardian) -> None:
    guardian.hear()
    assert guardian.process.stdout is not None
    guardian.process.stdout.close()
    guardian.let_go()
    assert guardian.process.wait(SECONDS) == 0
    assert kernel.rules == {}


def test_what_is_gone_already_is_no_failure(kernel: Kernel, guardian: Guardian) -> None:
    guardian.hear()
    kernel.write({"rules": {"iptables mangle": ["-N KPROXY_19092"]}, "log": [], "broken": []})
    guardian.let_go()
    assert guardian.hear() == {"removed": True}
    assert kernel.rules == {}


def test_a_failure_leaves_nothing_and_is_explained(kernel: Kernel) -> None:
    last = RULES.install()[-2]
    kernel.write({"rules": {}, "log": [], "broken": [" ".join(last)]})
    guardian = Guardian()
    answer = guardian.hear()
    guardian.close()
    assert answer == {"failed": f"cannot install the rules: {' '.join(last)}: no such thing"}
    assert kernel.rules == {}


def test_what_nobody_is_responsible_for_is_removed(kernel: Kernel) -> None:
    first, second = PORT, PORT + 1
    for port in (first, second):
        netfilter.install(Rules("redirect", port))
    alive = netfilter.claim(second)
    assert alive is not None
    with alive:
        assert netfilter.claim(second) is None
        guardian = Guardian()
        assert guardian.hear() == {"installed": [first]}
        assert f"KPROXY_{second}" in str(kernel.rules)
        assert f"KPROXY_{first}" not in str(kernel.rules)
        guardian.let_go()
        assert guardian.hear() == {"removed": True}
        guardian.close()
    assert netfilter.remove_leftovers() == [second]
    assert kernel.rules == {}


async def test_a_guard_starts_another_where_one_is_killed(kernel: Kernel) -> None:
    warned: list[str] = []
    guard = Guard(Rules("redirect", PORT + 2), lambda topic, _: warned.append(topic))
    assert await guard.install() == []
    first = guard._guardian
    assert first is not None
    first.kill()
    await first.wait()
    async with asyncio.timeout(SECONDS):
        while guard._guardian is first:  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(0.01)
    assert warned == ["guardian"]
    assert f"KPROXY_{PORT + 2}" in str(kernel.rules)
    await guard.remove()
    assert kernel.rules == {}
    with netfilter.claim(PORT + 2) or pytest.fail("the claim is still held"):
        pass


def test_a_killed_holder_is_noticed(kernel: Kernel) -> None:
    """A relay that holds the guardian's input and is killed with SIGKILL."""
    script = (
        "import asyncio\n"
        "from kproxy.transparent.guard import Guard\n"
        "from kproxy.transparent.rules import Rules\n"
        "async def main():\n"
        f"    await Guard(Rules('redirect', {PORT + 3}), print).install()\n"
        "    print('there', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "there\n"
        assert f"KPROXY_{PORT + 3}" in str(kernel.rules)
        holder.kill()
    assert wait_until(lambda: kernel.rules == {}, SECONDS)
