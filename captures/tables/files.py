"""Makes the rows of the table captures: one for each capture as the user gave it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TypeAlias

from kproxy.captures.errors import CaptureError
from kproxy.captures.given import Given, only_id
from kproxy.captures.keys import file_id, flow_id
from kproxy.captures.reader import Reader
from kproxy.captures.source import FileSource, Part
from kproxy.captures.tables.origins import Origins
from kproxy.captures.tables.rows import Row
from kproxy.captures.tcp.packets import Packets
from kproxy.decoders.exchange import Connection

Reasons: TypeAlias = Mapping[str, Sequence[str]]
"""By name of a file, why it could not be read to its end."""
_base = attrgetter("base")


class FileCounter:
    """Counts the TCP segments of a reading (`packets`) by file; `rows` then gives the rows."""

    def __init__(self, reading: str, source: FileSource) -> None:
        """`reading` is the id of the reading."""
        self._reading = reading
        self._source = source
        self._first = source.parts[0]
        self._files: dict[int, tuple[Part, Given]] = {}
        """By id() of a part, the part and its file; a ring may have deleted it since."""
        self._origins: dict[int, Origins] = {}
        """By id() of a merged part, from which of its files the packets come."""

    def packets(self, packets: Packets) -> None:
        """Count a batch of packets, all of which come from one file."""
        if len(packets):
            # a file's first payload is behind its first byte
            part = self._source.parts[bisect_right(self._source.parts, int(packets.at[0]) - 1, key=_base) - 1]
            self._of(part).count(packets.time)
            if packets.files is not None:
                self._origins.setdefault(id(part), Origins()).add(packets, packets.files)

    def rows(self, reader: Reader, name: Callable[[str], str] = str) -> Iterator[Row]:
        """The rows after `reader` has read the source; `name` maps a file's name to its form in the rows."""
        why = reasons(reader.errors)
        parts = {id(part): part for part in [*(part for part, _ in self._files.values()), *self._source.parts]}
        for part in sorted(parts.values(), key=_base):
            one = self._of(part)
            one.size = part.size
            for each in reader.given(part) or [one]:
                yield row(self._reading, each, part.name, why, name)

    def file_id(self, part: Part) -> str | None:
        """The id of the file of a part; None if the part was made of several files."""
        return only_id(part.given or [self._of(part)])

    def merged_id(self, part: Part, connection: Connection, address: int) -> str | None:
        """The id of the file, of those merged to a part, from which a connection has the byte at an address.

        None if the connection has no packet in the part up to there.
        """
        origins = self._origins.get(id(part))
        file = None if origins is None else origins.file(flow_id(connection.client, connection.broker), address)
        return None if file is None else part.given[file].id

    def _of(self, part: Part) -> Given:
        """The file of a part that was read as it is; its id is that of its first bytes at the first call."""
        held = self._files.get(id(part))
        if held is None:
            # the first file has the id of the reading, which was made before the file grew
            first = part is self._first and not part.given
            name = self._reading if first else file_id(self._source, part)
            held = self._files[id(part)] = part, Given(part.name, part.size, name)
        return held[1]


def row(reading: str, given: Given, part: str, why: Reasons, name: Callable[[str], str] = str) -> Row:
    """The row of a file that was read in the part of the source with this name."""
    texts = [text for one in dict.fromkeys((given.name, part)) for text in why.get(one, ())]
    return (
        given.id, reading, name(given.name), given.size, given.first, given.last, given.segments, bool(texts),
        "; ".join(texts) or None,
    )  # fmt: skip


def reasons(errors: Iterable[CaptureError]) -> Reasons:
    """The messages of errors by the file that they name, in order."""
    found: dict[str, list[str]] = {}
    for error in errors:
        found.setdefault(str(error.path), []).append(error.message)
    return found
