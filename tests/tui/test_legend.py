"""The legend of marks: complete, found by a second `?`, painted in ASCII where need be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.captures.analysis.columns.tables import tables
from kproxy.tui.actions.registry import SCREENS
from kproxy.tui.app import KproxyApp
from kproxy.tui.listing.columns import COLUMNS
from kproxy.tui.listing.legend import LEGEND, SHORT_WORDS
from kproxy.tui.listing.rows import CUT, EVIDENCE, STATE_LETTER
from kproxy.tui.screens.help import HelpLines, HelpScreen
from kproxy.tui.terminal import look
from kproxy.tui.widgets.records import MARK
from kproxy.tui.widgets.stats import FIGURES
from kproxy.tui.widgets.timing import BOUND, LASTED
from tests.tui.screen import grid

MARKS = " ".join(mark for _, marks in LEGEND for mark, _ in marks)


def test_every_mark_has_a_meaning() -> None:
    painted = {*STATE_LETTER.values(), *look.SEVERITY, EVIDENCE, CUT, *MARK.values(), LASTED, BOUND, "*", ";", "~"}
    assert [mark for mark in painted if mark not in MARKS] == []


# What everybody who knows Kafka reads at first sight.
WORDS = (
    "about address api assignment at began broker by bytes cause changes client clients cluster commits committed "
    "compression connections consumers controller coordinator count does end epoch errors event every exchanges "
    "failed failure fetches findings first flight from generation group groups health heartbeats host id in "
    "instance joined kind lag last latest leader left listed login max member members ms offline offset out "
    "partitions principal producer producers protocol rack rebalances received records refused replicas result sent "
    "software source state stats stopped throttled time timeout tls to took topic topics transactional unanswered "
    "utc "
)


def titles() -> Iterator[str]:
    """The titles of all columns and screens."""
    for table in tables().values():
        yield from (column.title for column in table.columns)
    yield from (column.title for column in COLUMNS)
    yield from (title for title, _ in FIGURES)
    yield from (title for _, title, _ in SCREENS.values())


def test_what_is_no_whole_word_in_a_title_is_explained() -> None:
    (short,) = [words for title, words in LEGEND if title == SHORT_WORDS]
    explained = {word for words, _ in short for word in words.replace(",", "").split()}
    used = {word for title in titles() for word in title.replace("Topic/Group/", "").split()}
    assert sorted(word for word in used - explained if word.lower() not in WORDS.split()) == []
    assert sorted(explained - used) == []


@pytest.mark.parametrize("width", [1, 10, 30, 60, 300])
async def test_it_is_found_at_any_width(index: Path, width: int) -> None:
    app = KproxyApp(index)
    async with app.run_test(size=(width, 12)) as pilot:
        await pilot.press("question_mark", "question_mark")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        pane = app.screen.query_one(HelpLines)
        assert LEGEND[0][0].startswith(pane._lines[pane.cursor][1])


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_a_second_question_mark_shows_it_and_a_third_closes_the_help(index: Path, *, ascii_only: bool) -> None:
    app = KproxyApp(index, ascii_only=ascii_only)
    async with app.run_test(size=(80, 30)) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        assert not any("waits for its response" in line for line in grid(app))
        await pilot.press("question_mark")
        await pilot.pause()
        lines = grid(app)
        assert "column S of the list, first letter" in lines[1]
        assert any(line.split()[:2] == [">", "waits"] for line in lines)
        assert "".join(lines).isascii() is ascii_only
        await pilot.press("question_mark")
        await pilot.pause()
        assert not isinstance(app.screen, HelpScreen)
