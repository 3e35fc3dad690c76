"""Keys in turn: each goes where those before it have led, however fast they come.

The toolkit hands all keys of a burst to the pane that has the focus then, before the first of them has moved it.
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
"""After which keys go on though what one of them set off has not ended."""
ROUNDS = 2
"""A key's way through the queues of the pane, its parents and the application, then that of the message it caused."""


class KeysInTurn(App[bool]):
    """An application whose panes get a key once all before it have done what they do."""

    def __init__(self, *, ansi_color: bool) -> None:
        super().__init__(ansi_color=ansi_color)
        self._held: deque[Event] = deque()
        """Keys and pasted texts that wait for one before them."""
        self._settling: asyncio.Task[None] | None = None
        self._after: dict[Callable[[], object], None] = {}

    @property
    def keys_wait(self) -> bool:
        """Whether there are keys behind the one that does what it does now."""
        return bool(self._held)

    @property
    def keys_at_work(self) -> bool:
        """Whether what a key set off goes on."""
        return self._settling is not None

    def after_keys(self, call: Callable[[], object]) -> None:
        """Call once when no key waits: what many keys would make many times. A call that is asked for is kept."""
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
            await self._give(event)

    async def _give(self, event: Event) -> None:
        """Let a key do what it does; what a line takes as text leads nowhere else."""
        line = self.focused
        if isinstance(event, events.Key) and line is not None and line.check_consume_key(event.key, event.character):
            await super().on_event(event)
            return
        self._settling = asyncio.create_task(self._settle())
        await super().on_event(event)

    async def _settle(self) -> None:
        """Wait until what a key set off is over, also where that is a screen that opens; then let the next go."""
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
        """To which keys go."""
        return self.focused or self.screen

    async def _pass_queues(self) -> None:
        """Pass through the queues that a key goes through, behind what is in them."""
        for pump in self._reader.ancestors_with_self:
            passed = asyncio.Event()
            if pump.post_message(events.Callback(callback=passed.set)):
                await passed.wait()

    async def _next(self) -> None:
        self._settling = None
        while self._held and self._settling is None:
            await self._give(self._held.popleft())
        self._calm()

    def _calm(self) -> None:
        if self._settling is None:
            calls, self._after = self._after, {}
            for call in calls:
                call()
