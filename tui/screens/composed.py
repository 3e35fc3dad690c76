"""The base of all screens: handlers that query panes do not run on a screen that is removed before it has them."""

from __future__ import annotations

from textual import events
from textual.screen import Screen, ScreenResultType


class Composed(Screen[ScreenResultType]):
    """Drops mount, resize and resume events while it is being removed, since its panes may never be created."""

    @property
    def stands(self) -> bool:
        """Whether its panes exist: it is mounted and not being removed."""
        return self.is_mounted and not self._leaves

    @property
    def _leaves(self) -> bool:
        # no style of ours hides a screen: Textual does, once it is to be removed, and for all when the application ends
        return not (self.display and self.is_attached)

    async def on_event(self, event: events.Event) -> None:
        if not (self._leaves and isinstance(event, events.Mount | events.Resize | events.ScreenResume)):
            await super().on_event(event)
