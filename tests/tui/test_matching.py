from __future__ import annotations

from itertools import count as count_up
from pathlib import Path

import pytest

from kproxy.captures.index.reader import IndexReader
from kproxy.decoders import schema
from kproxy.decoders.exchange import Status
from kproxy.decoders.filters import Why, parse
from kproxy.tui.listing import matching
from kproxy.tui.listing.matching import View
from tests.support.indexes import IndexBuilder, heartbeat


def view(index: IndexReader, text: str) -> View:
    expression = parse(text).expression
    assert expression is not None
    return View(index, schema.definitions(), expression, text)


def shown(view: View) -> list[int]:
    return [view.row_number(position) for position in range(view.count)]


@pytest.mark.parametrize("seconds", [0.0, 0.007, 1.0])
def test_a_filter_that_opens_bodies_lets_the_screen_have_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """After as many bodies as take about a slice's time."""
    clock = count_up(step=seconds)
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    builder = IndexBuilder(tmp_path)
    count = 12 * matching.FIRST_BODIES
    for number in range(count):
        heartbeat(builder, group=f"g-{number % 3}")
    builder.finish()
    with IndexReader(builder.path) as index:
        seen = view(index, "request.body.groupId == g-1")
        slices = []
        left = True
        while left:
            before = seen.scanned
            left = seen.scan(count)
            slices.append(seen.scanned - before)
        first = matching.FIRST_BODIES
        expected = {0.0: [first, 2 * first, 4 * first], 0.007: [first] * 3, 1.0: [first, first // 2, first // 4]}
        assert slices[:3] == expected[seconds]
        assert all(slices)
        assert shown(seen) == list(range(1, count, 3))
        assert not view(index, "group == g-1").scan(count)
        seen.close()


def test_what_waited_is_asked_again(tmp_path: Path) -> None:
    builder = IndexBuilder(tmp_path)
    late = heartbeat(builder, error=27, status=Status.WAITING)
    broken = heartbeat(builder, status=Status.WAITING, raw_response=b"\0")
    builder.flush()
    with IndexReader(builder.path) as index:
        errors, fine = view(index, "error"), view(index, "not error")
        for one in (errors, fine):
            assert not one.scan(index.count)
            assert not one.unknown
        late.status = broken.status = Status.OK
        builder.put(late)
        builder.put(broken)
        builder.flush()
        index.refresh()
        errors.settle()
        fine.settle()
        assert (shown(errors), shown(fine)) == ([0], [])
        assert errors.unknown == fine.unknown == {Why.UNDECODABLE: 1}
        errors.close()
        fine.close()
