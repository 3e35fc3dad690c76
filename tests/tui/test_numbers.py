"""Numbers in a file behave as a list does."""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.tui.listing import numbers
from kproxy.tui.listing.numbers import Numbers

MANY = 3 * numbers.STEP // 4
"""More than one step holds."""


def parts(pid: int | str = "self") -> dict[str, int]:
    """Bytes of memory by kind."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.partition(":")[0]: int(line.split()[1]) << 10 for line in lines if line.startswith("Rss")}


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("extend"), st.integers(0, 40)),
            st.tuples(st.sampled_from(["insert", "remove", "drop"]), st.floats(0, 1)),
        ),
        max_size=30,
    )
)
@settings(deadline=None)
def test_it_is_a_list(steps: list[tuple[str, float]]) -> None:
    plain: list[int] = []
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        # room for a few at a time, so that it grows
        patch.setattr(numbers, "STEP", 4096)
        held = Numbers(Path(folder))
        for count, (step, much) in enumerate(steps):
            at = int(much * len(plain))
            if step == "extend":
                some = range(count * 10_000, count * 10_000 + int(much) * 100)
                plain += some
                held.extend(some)
            elif step == "insert":
                plain.insert(at, count)
                held.insert(at, count)
            elif step == "drop":
                del plain[:at]
                held.drop(at)
            elif at < len(plain):
                del plain[at]
                held.remove(at)
            assert len(held) == len(plain)
        assert [held[at] for at in range(len(held))] == plain
        for number in plain[:5]:
            assert held.index(number) == plain.index(number)
        with pytest.raises(ValueError, match="4294967295"):
            held.index(2**32 - 1)
        with pytest.raises(IndexError):
            held[len(plain)]


def no_room(file: int, data: bytes, at: int) -> int:
    del file, data, at
    raise OSError(28, "no space left")


def half(file: int, data: bytes, at: int) -> int:
    return os.pwritev(file, [data[: len(data) // 2]], at)


@pytest.mark.parametrize("write", [no_room, half])
def test_without_room_on_the_disk_they_stay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[int, bytes, int], int]
) -> None:
    held = Numbers(tmp_path, range(MANY))
    monkeypatch.setattr(os, "pwrite", write)
    held.extend(range(MANY, 2 * MANY))
    assert [held[at] for at in (0, MANY, 2 * MANY - 1)] == [0, MANY, 2 * MANY - 1]
    assert bisect_left(held, 17 * numbers.STEP // 16) == 17 * numbers.STEP // 16


def test_without_a_directory_they_stay_in_memory(tmp_path: Path) -> None:
    held = Numbers(tmp_path / "gone", range(MANY))
    assert held[MANY - 1] == MANY - 1


def test_many_take_no_memory_of_ours_and_leave_no_file(tmp_path: Path) -> None:
    before = parts()["RssAnon"]
    held = Numbers(tmp_path, range(10_000_000))
    assert parts()["RssAnon"] - before < 8_000_000
    assert len(held) == 10_000_000
    assert not list(tmp_path.iterdir())
