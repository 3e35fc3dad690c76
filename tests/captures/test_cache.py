"""The store of results derived from captures, used by several processes at once, and the names of its entries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kproxy.captures import cache
from kproxy.captures.cache import SEALS, Store
from kproxy.captures.ring import RING_FILE
from kproxy.captures.stamps import ends, stamp

DAMAGED = {"first byte": 0, "middle": 500, "last byte": 999}


def called(letter: str) -> str:
    """The name of an entry."""
    return letter * 40


def kept(store: Store, directory: Path, entry: str, size: int = 1000) -> None:
    path = directory / f"{entry}-made"
    path.write_bytes(entry.encode()[:1] * size)
    store.keep(called(entry), {"data": path})
    path.unlink()


def lent(store: Store, directory: Path, entry: str) -> bytes | None:
    path = directory / f"{entry}-lent"
    if not store.lend(called(entry), {"data": path}):
        assert not path.exists()
        return None
    data = path.read_bytes()
    path.unlink()
    return data


def used(store: Path, entry: str, when: int) -> None:
    os.utime(store / entry, (when, when))


def test_what_is_kept_is_lent_and_private(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", 1 << 30)
    assert lent(store, tmp_path, "a") is None
    kept(store, tmp_path, "a")
    assert lent(store, tmp_path, "a") == b"a" * 1000
    assert lent(store, tmp_path, "b") is None
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "store" / called("a")).stat().st_mode & 0o777 == 0o700


def test_beyond_the_limit_goes_what_was_used_longest_ago(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", 120_000)
    for at, entry in enumerate("abc"):
        kept(store, tmp_path, entry, 30_000)
        used(tmp_path / "store", called(entry), 1_000_000 + at)
    assert lent(store, tmp_path, "a") is not None, "which is a use"
    kept(store, tmp_path, "d", 30_000)
    assert [entry for entry in "abcd" if lent(store, tmp_path, entry)] == ["a", "c", "d"]


def test_the_newest_stays_though_it_is_too_large(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", 10_000)
    kept(store, tmp_path, "a")
    kept(store, tmp_path, "b", 200_000)
    assert lent(store, tmp_path, "a") is None
    assert lent(store, tmp_path, "b") == b"b" * 200_000


def test_who_has_it_keeps_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", 1 << 30)
    kept(store, tmp_path, "a")
    assert store.lend(called("a"), {"data": tmp_path / "mine"})
    store.trim(0)
    assert lent(store, tmp_path, "a") is None
    assert (tmp_path / "mine").read_bytes() == b"a" * 1000


@pytest.mark.parametrize("damage", ["cut", *DAMAGED, "a link", "no seals", "odd seals", "a file is gone", "nothing"])
def test_what_lost_its_bytes_is_not_lent_and_made_anew(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path / "store", 1 << 30)
    kept(store, tmp_path, "a")
    entry = tmp_path / "store" / called("a")
    if damage == "cut":
        os.truncate(entry / "data", 999)
    elif damage in DAMAGED:
        data = bytearray(b"a" * 1000)
        data[DAMAGED[damage]] = 0
        (entry / "data").write_bytes(data)
    elif damage == "a link":
        (entry / "data").unlink()
        (tmp_path / "other").write_bytes(b"a" * 1000)
        (entry / "data").symlink_to(tmp_path / "other")
    elif damage == "no seals":
        (entry / SEALS).unlink()
    elif damage == "odd seals":
        (entry / SEALS).write_text("[7")
    elif damage == "a file is gone":
        (entry / "data").unlink()
    else:
        for path in entry.iterdir():
            path.unlink()
    assert lent(store, tmp_path, "a") is None
    kept(store, tmp_path, "a")
    assert lent(store, tmp_path, "a") == b"a" * 1000


def test_what_a_killed_process_left_half_goes(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", 1 << 30)
    kept(store, tmp_path, "a")
    young, old = tmp_path / "store" / ".half-young", tmp_path / "store" / ".half-old"
    for half in (young, old):
        half.mkdir()
        (half / "data").write_bytes(b"half")
    used(tmp_path / "store", ".half-old", 1_000_000)
    store.trim(1 << 30)
    assert young.exists(), "somebody may be at it"
    assert not old.exists()
    assert lent(store, tmp_path, "a") == b"a" * 1000


def test_an_entry_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: set[int] = set()
    flush, rename = os.fsync, os.rename
    named = []

    def noted(descriptor: int) -> None:
        flush(descriptor)
        flushed.add(os.fstat(descriptor).st_ino)

    def renamed(name: str, target: str, **folders: int) -> None:
        path = tmp_path / "store" / name
        named.append({one.name for one in (path, *path.iterdir()) if one.stat().st_ino not in flushed})
        rename(name, target, **folders)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "rename", renamed)
    store = Store(tmp_path / "store", 1 << 30)
    kept(store, tmp_path, "a")
    assert named == [set()]
    assert lent(store, tmp_path, "a") == b"a" * 1000


def test_where_nothing_can_be_kept_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"a file where the directory should be")
    store = Store(tmp_path / "store", 1 << 30)
    kept(store, tmp_path, "a")
    assert lent(store, tmp_path, "a") is None


def test_a_stamp_tells_a_change(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(300_000))
    before = path.stat()
    first = stamp(path)
    assert first == stamp(path)

    def written(at: int) -> None:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(b"x")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    written(150_000)
    assert stamp(path) != first, "in the middle, where only a time tells that nobody can set"
    written(70_000 - 65_536)
    with path.open("rb") as file:
        second = ends(file.fileno(), 300_000)
    written(299_999)
    with path.open("rb") as file:
        assert ends(file.fileno(), 300_000) != second
    third = stamp(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert stamp(path) != third
    other = tmp_path / "other"
    other.write_bytes(path.read_bytes())
    path.rename(tmp_path / "away")
    other.rename(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert stamp(path) != third, "another inode"


def test_a_pipe_has_no_stamp(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert stamp(tmp_path / "pipe") is None
    assert stamp(tmp_path / "nothing") is None


def test_a_directory_s_stamp_is_that_of_its_files(tmp_path: Path) -> None:
    assert not stamp(tmp_path)
    (tmp_path / "seg-00000001-20261121T183638Z.pcapng").write_bytes(b"1")
    first = stamp(tmp_path)
    assert first
    assert stamp(tmp_path) == first
    (tmp_path / RING_FILE).write_text("{}")
    assert stamp(tmp_path) != first


def test_another_release_reads_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "captures").mkdir()
    (tmp_path / "captures" / "__pycache__").mkdir()
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "captures" / "cache.py"))

    def name() -> str:
        cache._code.cache_clear()
        return cache.name("anything")

    try:
        first = name()
        (tmp_path / "captures" / "__pycache__" / "reader.pyc").write_bytes(b"x")
        assert name() == first
        (tmp_path / "captures" / "reader.py").write_bytes(b"x")
        assert name() != first
    finally:
        cache._code.cache_clear()


def test_bytes_far_from_both_ends_are_looked_at(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", 1 << 30)
    path = tmp_path / "large"
    path.write_bytes(bytes(4 << 20))
    store.keep(called("a"), {"data": path})
    with path.open("r+b") as file:  # the entry is another name of the same file
        file.seek(2 << 20)
        file.write(b"x")
    assert lent(store, tmp_path, "a") is None
