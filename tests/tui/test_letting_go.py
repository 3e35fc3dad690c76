"""The list of a ring's index: what was let go leaves it, and what is shown stays where it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.captures.index.reader import IndexReader
from kproxy.captures.index.writer import Mark
from kproxy.decoders.filters import parse
from kproxy.tui.app import KproxyApp
from kproxy.tui.listing.matching import View
from tests.support.indexes import IndexBuilder, heartbeat
from tests.tui.screen import grid


@pytest.fixture
def builder(tmp_path: Path) -> IndexBuilder:
    made = IndexBuilder(tmp_path, state="following")
    heartbeat(made)
    made.flush()
    return made


def forty_rows(builder: IndexBuilder) -> Mark:
    """What lies before the eleventh of them."""
    while builder.numbered < 10:
        heartbeat(builder)
    mark = builder.writer.mark()
    while builder.numbered < 40:
        heartbeat(builder)
    builder.flush()
    return mark


@pytest.mark.parametrize("text", ["", "api == Heartbeat"])
def test_a_view_leaves_out_what_was_let_go(builder: IndexBuilder, text: str) -> None:
    with IndexReader(builder.path) as index:
        view = View(index, builder.definitions, parse(text).expression if text else None, text)
        view.scan(index.count)
        assert (view.count, view.row_number(0)) == (1, 0)
        builder.writer.let_go(forty_rows(builder))
        assert index.refresh()
        assert view.let_go() == 1
        assert view.count == 0
        view.scan(index.count)
        assert [view.row_number(line) for line in range(view.count)] == list(range(10, 40))
        assert (view.position(3), view.position(10), view.position(25)) == (0, 0, 15)
        assert view.let_go() == 0
        late = View(index, builder.definitions, view.expression, text)
        late.scan(index.count)
        assert [late.row_number(line) for line in range(late.count)] == list(range(10, 40))


async def test_the_cursor_stays_on_its_exchange(builder: IndexBuilder) -> None:
    mark = forty_rows(builder)
    app = KproxyApp(builder.path, ascii_only=False)
    async with app.run_test(size=(120, 20)) as pilot:
        await pilot.press(*["j"] * 24)
        await pilot.pause()
        screen = app.screen
        assert screen.pane.selected == 24  # type: ignore[attr-defined]  # the exchanges' screen
        builder.writer.let_go(mark)
        screen._tick()  # type: ignore[attr-defined]
        await pilot.pause()
        assert screen.pane.selected == 24  # type: ignore[attr-defined]
        text = "\n".join(grid(app))
        assert " 15/30 " in text
        assert "10 older overwritten" in text
        await pilot.press("g")
        await pilot.pause()
        assert screen.pane.selected == 10  # type: ignore[attr-defined]
