"""The timer beside the event loop's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
import uvloop

from kproxy.relay import timer

RUNNERS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
Run = Callable[[Coroutine[Any, Any, None]], None]


def gone_off(called: list[float], event: asyncio.Event) -> None:
    called.append(time.monotonic())
    event.set()


@RUNNERS
def test_it_goes_off_once_and_not_early(run: Run) -> None:
    async def main() -> None:
        once = timer.Timer(asyncio.get_running_loop())
        for seconds in (0.02, 0.0, 0.01):
            called: list[float] = []
            event = asyncio.Event()
            start = time.monotonic()
            once(seconds, partial(gone_off, called, event))
            await event.wait()
            assert called[0] - start >= seconds
            await asyncio.sleep(0.03)
            assert len(called) == 1

    run(main())


@RUNNERS
def test_set_again_it_forgets_what_was_due(run: Run) -> None:
    async def main() -> None:
        once = timer.Timer(asyncio.get_running_loop())
        called: list[str] = []
        event = asyncio.Event()
        once(0.005, lambda: called.append("first"))
        time.sleep(0.02)  # noqa: ASYNC251 (it is due before the loop looks)
        once(0.01, event.set)
        await event.wait()
        assert called == []

    run(main())


def test_without_one_it_is_the_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> object:
        raise AttributeError("timerfd_create")

    monkeypatch.setattr(timer, "Timer", none)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert timer.timer(loop) == loop.call_later

    asyncio.run(main())
