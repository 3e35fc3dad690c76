"""The plan of a reading: its files, their order, and the splits into which each is cut.

Addresses of a reading (decoders.stream) grow in capture order: each file has WIDE of them, whatever its size, so that
the sizes of preceding files need not be known.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from glob import glob
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kproxy.captures.errors import CaptureError, FormatError
from kproxy.captures.formats import detect
from kproxy.captures.formats.magic import begins_as_capture
from kproxy.captures.formats.records import Walker
from kproxy.captures.joining import DISORDER, merged
from kproxy.captures.keys import HEAD, capture_id, named
from kproxy.captures.ring import number_of
from kproxy.captures.source import FileSource
from kproxy.captures.spark.plan import files
from kproxy.captures.spark.plan.edges import edges
from kproxy.captures.spark.plan.files import Stamp
from kproxy.captures.spark.plan.slices import Slice
from kproxy.captures.tls import keylog
from kproxy.captures.tls.keylog import Secrets

WIDE: Final = 1 << 44
"""Number of addresses that each file has."""
SPLIT_SIZE: Final = 128 << 20
"""Default maximum size of a split in bytes."""
_HEADS: Final = (1 << 16, 1 << 20, 1 << 24, keylog.LARGEST)
"""Numbers of leading bytes of a file, tried one after the other, in which its first packet is searched for."""
_TAIL: Final = 1 << 16
"""Number of bytes at the end of a file in which its last time is searched for."""
_RECORDS: Final = 4096
_ENCRYPTED: Final = "TLS is decrypted from the beginning on"


@dataclass(frozen=True, slots=True)
class Split:
    """The work of one task: the records of a file from offset `start` to offset `end`; the file's first address is
    `base`.

    `walker` is a walker of the file in its state at `start`. If it is None, the files `paths` are read together: in
    `slice` if that is given, otherwise from beginning to end (a compressed file, files that must be merged, encrypted
    traffic).
    """

    number: int
    paths: tuple[str, ...]
    base: int
    start: int
    end: int
    walker: Walker | None
    last: bool = True
    """Whether this is the last split of its file."""
    alone: bool = True
    """Whether this is the only split of its file."""
    stamp: Stamp | None = None
    """The stamp of the file; None without a walker."""
    id: str | None = None
    """The id of the file (captures.keys); None without a walker."""
    secrets: Secrets = field(default_factory=dict, repr=False)
    """TLS secrets besides those in the files; only splits without a walker have any."""
    slice: Slice | None = None
    bases: tuple[int, ...] = ()
    """Addresses beyond those of all groups, one for each file; the files that this task merges get one each, from which
    on WIDE addresses stand for the file. A slice has them in its ranges.
    """


@dataclass(frozen=True, slots=True)
class Plan:
    """The splits of a reading. `capture` is its name (captures.tables.keys); `groups` are its files.

    Files of a group are read together. `before` is the number of groups that earlier readings had. `whole` are (file,
    reason) of files that one task reads from beginning to end.
    """

    capture: str
    groups: tuple[tuple[str, ...], ...]
    splits: tuple[Split, ...]
    before: int = 0
    whole: tuple[tuple[str, str], ...] = ()
    overlaps: bool = False
    """Whether files seem to overlap in time, judged by their first and last packets. Then all splits are surveyed
    before packets are read, because the plan will change.
    """

    @property
    def decrypted(self) -> bool:
        """Whether the captures contain TLS, which is decrypted."""
        return any(reason == _ENCRYPTED for _, reason in self.whole)


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    first: int | None
    """Time (ns) of the file's first packet; None if no packet can be read."""
    whole: bool
    """Whether the file must not be cut into splits."""


def expand(paths: Sequence[Path | str]) -> list[str]:
    """The files of `paths`, each once, in order; a pattern or folder stands for its captures.

    Raises CaptureError if there are none.
    """
    found: list[str] = []
    for path in map(str, paths):
        if files.is_url(path):
            found += files.found(path)
        elif Path(path).exists():
            found += _of_folder(Path(path)) if Path(path).is_dir() and not _is_ring(Path(path)) else [path]
        elif matching := sorted(glob(path)):  # noqa: PTH207  # a pattern may begin at the root
            found += matching
        else:
            raise CaptureError("No such file or directory", path)
    return list(dict.fromkeys(found))


def _is_ring(folder: Path) -> bool:
    return any(number_of(path.name) for path in folder.iterdir())


def _of_folder(folder: Path) -> list[str]:
    found = sorted(str(path) for path in folder.iterdir() if path.is_file() and begins_as_capture(path))
    if not found:
        raise CaptureError("a folder without captures", folder)
    return found


def plan(paths: Sequence[Path | str], size: int = SPLIT_SIZE, before: int = 0, secrets: Secrets | None = None) -> Plan:
    """The plan for reading these captures in splits of about `size` bytes at most.

    `before` is the number of groups of files that earlier readings had. With TLS `secrets`, or if a capture contains
    some, all captures are decrypted together by one task. Raises CaptureError if a capture cannot be opened.
    """
    given = expand(paths)
    folder = len(given) == 1 and Path(given[0]).is_dir()
    files = [] if folder else [_look(path) for path in given]
    if secrets or (not folder and any(map(_has_secrets, given))):
        return _decrypted(tuple(given), before, secrets or {})
    if folder:
        return of_groups([tuple(given)], size, before=before)
    with_time = sorted((one for one in files if one.first is not None), key=lambda one: one.first or 0)
    ordered = [*with_time, *(one for one in files if one.first is None)]
    made = of_groups([(one.path,) for one in ordered], size, before=before)
    return replace(made, overlaps=_overlap(made.splits, {one.path: one.first or 0 for one in files}))


def _overlap(splits: Sequence[Split], began: Mapping[str, int]) -> bool:
    """Whether a file begins before the end of one that begins earlier; False unless all are local and cut.

    `began` are the times (ns) of the files' first packets.
    """
    last = 0
    if any(split.walker is None or files.is_url(split.paths[0]) for split in splits):
        return False
    for split in splits:
        if not split.last:
            continue
        if 0 < began[split.paths[0]] < last - DISORDER:
            return True
        last = max(last, _latest(split))
    return False


def _latest(split: Split) -> int:
    """The latest time (ns) of the packets in the last _TAIL bytes of a split; 0 if there are none."""
    with files.mapped(split.paths[0]) as held:
        if held is None or split.walker is None:
            return 0
        view, walker = held.view, split.walker
        starts = edges(view, walker, [max(split.start, split.end - _TAIL)], held.need)
        walker = moved(walker, starts[0] if starts else split.start)
        latest = 0
        with contextlib.suppress(FormatError):
            while (records := walker.walk(view[: split.end], _RECORDS)) is not None:
                latest = max(latest, int(records.time.max()))
        return latest


def of_groups(
    groups: Sequence[tuple[str, ...]],
    size: int,
    serial: frozenset[int] = frozenset(),
    before: int = 0,
    slices: Mapping[int, Sequence[Slice]] = MappingProxyType({}),
    bases: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> Plan:
    """The plan for files in this order; files of a group are read together, in `slices` if the group has any.

    The groups with index in `serial` are not cut. `bases` has Split.bases by the index of the group.
    """
    splits: list[Split] = []
    for index, group in enumerate(groups):
        parts = [Split(0, group, 0, 0, 0, None, slice=one) for one in slices.get(index, ())]
        for split in parts or _splits(group, size, cut=index not in serial):
            known = () if split.slice is not None else tuple(bases.get(index, ()))
            splits.append(replace(split, number=len(splits), base=(before + index) * WIDE, bases=known))
    capture = _merged(groups[0]) if 0 in slices else _capture(groups[0])
    return Plan(capture, tuple(groups), tuple(splits), before)


def _decrypted(group: tuple[str, ...], before: int, secrets: Secrets) -> Plan:
    split = Split(0, group, before * WIDE, 0, 0, None, secrets=secrets)
    return Plan(
        _capture(group, secrets), (group,), (split,), before, tuple((files.shown(path), _ENCRYPTED) for path in group)
    )


def _splits(group: tuple[str, ...], size: int, *, cut: bool) -> Iterator[Split]:
    path = group[0]
    whole = Split(0, group, 0, 0, 0, None)
    if len(group) > 1 or not cut or Path(path).is_dir():
        yield whole
        return
    with files.mapped(path) as held:
        walker = None if held is None else _first_packet(held)
        if held is None or walker is None:
            yield whole
            return
        view = held.view
        nominal = range(walker.position + size, len(view), max(size, 1))
        starts = [walker.position, *edges(view, walker, nominal, held.need)]
        starts = sorted(set(starts))
        held.need(0, HEAD)
        one = named(bytes(view[:HEAD]))
        for start, end in zip(starts, [*starts[1:], len(view)], strict=True):
            at = moved(walker, start)
            yield Split(
                0, group, 0, start, end, at, last=end == len(view), alone=len(starts) == 1, stamp=held.stamp, id=one
            )  # fmt: skip


def moved(walker: Walker, position: int) -> Walker:
    """A copy of a walker that continues at another offset."""
    other = copy(walker)
    other.position = position
    return other


def _first_packet(held: files.Mapped) -> Walker | None:
    for size in _HEADS:
        held.need(0, size)
        walker = _at_first_packet(held.view[:size])
        if walker is not None or size >= len(held.view):
            return walker
    return None


def _at_first_packet(view: memoryview) -> Walker | None:
    """A walker that has read everything before the first packet of a file; None if the file cannot be cut."""
    try:
        walker = detect.walker(view, whole=True)
        if walker is None:
            return None
        records = walker.walk(view, 1)
    except FormatError:
        return None
    if records is None:
        return None
    before = detect.walker(view, whole=True)
    assert before is not None  # noqa: S101  # it was there before
    with contextlib.suppress(FormatError):
        before.walk(view[: int(records.data[0])], 1)
    return before if before.position <= int(records.data[0]) else None


def _look(path: str) -> _File:
    """Read the beginning of a file: returns the time of its first packet, and whether it can be cut."""
    for size in _HEADS[:-1]:
        first = files.head(path, size)
        view = memoryview(first)
        try:
            walker = detect.walker(view, whole=True)
            records = None if walker is None else walker.walk(view, 1)
        except FormatError:
            break
        if records is not None:
            return _File(path, int(records.time[0]), whole=False)
        if len(first) < size:
            break
    return _File(path, None, whole=True)


def began(path: str) -> int | None:
    """Time (ns) of a file's first packet; None without packets. Raises CaptureError if the file cannot be opened."""
    return _look(path).first


def _has_secrets(path: str) -> bool:
    """Whether a capture contains TLS secrets, so that it must be decrypted while it is read."""
    with files.mapped(path) as held:
        if held is None:
            return bool(keylog.embedded([memoryview(files.head(path, HEAD))]))
        for size in _HEADS:
            held.need(0, size)
            if keylog.settled(held.view[:size]):
                break
        return bool(keylog.embedded([held.view[:size]]))


def _merged(group: tuple[str, ...]) -> str:
    """The id of the capture whose first files are these local files, merged; only the beginning is merged to compute
    it.
    """
    with contextlib.closing(FileSource([Path(path) for path in group])) as source:
        first = next(merged(source.parts))  # at least joining.PIECE bytes, more than HEAD, or all
        return named(first[:HEAD])


def _capture(group: tuple[str, ...], secrets: Secrets | None = None) -> str:
    """The id of the capture that begins with these files, as captures.tables.keys.capture_id gives it."""
    if len(group) == 1 and not secrets and files.is_url(group[0]):
        return named(files.head(group[0], HEAD))
    with files.opened(group, secrets) as source:
        return capture_id(source)
