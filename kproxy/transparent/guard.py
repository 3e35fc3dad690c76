"""Runs the guardian for the relay: starts it, sends it commands, and starts another one if it was killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from kproxy.transparent import netfilter
from kproxy.transparent.netfilter import RulesError
from kproxy.transparent.rules import Rules

CLAIM_SECONDS = 10.0
"""Maximum number of seconds to wait until the guardian of an earlier relay on this port has ended."""
CLAIM_PAUSE = 0.1
ANSWER_SECONDS = 60.0
RESTARTS = 3


class Guard:
    """Netfilter rules that are in force from `install` to `remove`, or until this process has ended."""

    def __init__(self, rules: Rules, warn: Callable[[str, str], None]) -> None:
        """`warn(topic, text)` shows the user a warning."""
        self._rules = rules
        self._warn = warn
        self._claim: socket.socket | None = None
        self._guardian: Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._listening = asyncio.Lock()

    async def install(self) -> list[int]:
        """Installs the rules; returns the ports of relays that have died and whose rules were removed.

        Raises RulesError.
        """
        waited = 0.0
        while (claimed := netfilter.claim(self._rules.listen_port)) is None:
            if waited >= CLAIM_SECONDS:
                raise RulesError(f"another process manages the rules of port {self._rules.listen_port}")
            await asyncio.sleep(CLAIM_PAUSE)
            waited += CLAIM_PAUSE
        self._claim = claimed
        answer = await self._answer(await self._start(claimed, install=True))
        self._watch = asyncio.get_running_loop().create_task(self._restart(claimed))
        return list(answer["installed"])

    async def release(self) -> None:
        """Stops redirecting new connections; connections that were redirected go on."""
        guardian = self._guardian
        if guardian is not None and guardian.stdin is not None:
            guardian.stdin.write(b"release\n")
            with contextlib.suppress(RulesError):
                await self._answer(guardian)

    async def remove(self) -> None:
        """Removes the rules. Raises RulesError if some remain."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        guardian, claimed = self._guardian, self._claim
        if guardian is None or claimed is None:
            return
        if guardian.returncode is not None:
            guardian = await self._start(claimed, install=False)
            await self._answer(guardian)
        assert guardian.stdin is not None  # noqa: S101 (asked for)
        guardian.stdin.close()
        try:
            await self._answer(guardian)
            await guardian.wait()
        finally:
            claimed.close()

    async def _start(self, claimed: socket.socket, *, install: bool) -> Process:
        guardian = self._guardian = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "kproxy.transparent.guardian",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(claimed.fileno(),),
            start_new_session=True,
        )
        assert guardian.stdin is not None  # noqa: S101 (asked for)
        guardian.stdin.write(json.dumps({"rules": asdict(self._rules), "install": install}).encode() + b"\n")
        return guardian

    async def _answer(self, guardian: Process) -> dict[str, Any]:
        assert guardian.stdout is not None  # noqa: S101 (asked for)
        try:
            async with asyncio.timeout(ANSWER_SECONDS), self._listening:
                line = await guardian.stdout.readline()
        except TimeoutError:
            raise RulesError(
                f"the process that installs the redirect rules did not answer within {ANSWER_SECONDS:g} seconds"
            ) from None
        answer: dict[str, Any] = (
            json.loads(line) if line else {"failed": "the process that installs the redirect rules has died"}
        )
        if "failed" in answer:
            raise RulesError(answer["failed"])
        return answer

    async def _restart(self, claimed: socket.socket) -> None:
        """Starts another guardian after one was killed: some process must remove the rules if this one is killed."""
        for _ in range(RESTARTS):
            assert self._guardian is not None  # noqa: S101 (started before)
            await self._guardian.wait()
            self._warn("guardian", "the process that removes the iptables rules was killed; kproxy starts another one")
            with contextlib.suppress(RulesError, OSError):
                await self._answer(await self._start(claimed, install=False))
        self._warn(
            "guardian-gone",
            "the process that removes the iptables rules was killed repeatedly; "
            "if this one is killed too, kproxy starts no other",
        )
