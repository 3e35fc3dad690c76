"""Handles keys one after the other: each goes to the pane that earlier keys have focused, however fast they come.

Textual gives all keys of a burst to the pane that has the focus at first, before one of them can move the focus.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from textual import events
from textual.app import App
from textual.events import Event
from textual.widget import Widget

PATIENCE_SECONDS = 1.0
"""Longest wait for the effects of a key before the next key is handled."""
ROUNDS = 2
"""Passes through the queues of pane, parents and application: one for a key, one for the message that it causes."""


class KeysInTurn(App[bool]):
    """An application whose panes get a key once the effects of all earlier keys are complete."""

    def __init__(self, *, ansi_color: bool) -> None:
        super().__init__(ansi_color=ansi_color)
        self._held: deque[Event] = deque()
        """Keys and pasted texts that wait for an earlier one."""
        self._settling: asyncio.Task[None] | None = None
        self._after: dict[Callable[[], object], None] = {}

    @property
    def keys_wait(self) -> bool:
        """Whether keys wait behind the one that is being handled."""
        return bool(self._held)

    @property
    def keys_at_work(self) -> bool:
        """Whether a key is being handled."""
        return self._settling is not None

    def after_keys(self, call: Callable[[], object]) -> None:
        """Run `call` once no key is being handled; until then, further requests for the same call are ignored."""
        self._after[call] = None
        self.call_later(self._calm)

    def on_unmount(self) -> None:
        if self._settling is not None:
            self._settling.cancel()

    async def on_event(self, event: Event) -> None:
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
        elif self._settling is not None:
            self._held.append(event)
        else:
            await self._handle(event)

    async def _handle(self, event: Event) -> None:
        """Handle a key. Text typed into an input line moves no focus, so the next key need not wait for it."""
        line = self.focused
        if isinstance(event, events.Key) and line is not None and line.check_consume_key(event.key, event.character):
            await super().on_event(event)
            return
        self._settling = asyncio.create_task(self._settle())
        await super().on_event(event)

    async def _settle(self) -> None:
        """Wait for the effects of a key, a screen that opens included; then handle the next key."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                rounds, led = 0, False
                while rounds < ROUNDS or led:
                    before = self._reader
                    await self._pass_queues()
                    rounds, led = rounds + 1, self._reader is not before
        self.call_later(self._next)

    @property
    def _reader(self) -> Widget:
        """The widget that gets keys."""
        return self.focused or self.screen

    async def _pass_queues(self) -> None:
        """Wait until the queues that a key passes through have handled what they hold now."""
        for pump in self._reader.ancestors_with_self:
            passed = asyncio.Event()
            if pump.post_message(events.Callback(callback=passed.set)):
                await passed.wait()

    async def _next(self) -> None:
        self._settling = None
        while self._held and self._settling is None:
            await self._handle(self._held.popleft())
        self._calm()

    def _calm(self) -> None:
        if self._settling is None:
            calls, self._after = self._after, {}
            for call in calls:
                call()
