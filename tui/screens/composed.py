"""The base of all screens: one that is taken away before it has its panes does not look for them."""

from __future__ import annotations

from textual import events
from textual.screen import Screen, ScreenResultType


class Composed(Screen[ScreenResultType]):
    """Is mounted only with what it was composed of: where it has to leave meanwhile, that is gone by then."""

    @property
    def stands(self) -> bool:
        """Whether its panes are there to be found: not while it is put up or taken away."""
        return self.is_mounted and bool(self.children)

    async def on_event(self, event: events.Event) -> None:
        if self.children or not isinstance(event, events.Mount | events.Resize | events.ScreenResume):
            await super().on_event(event)
