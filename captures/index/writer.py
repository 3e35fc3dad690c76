"""Writes indexes, as the only module: appends rows, completes them in place, replaces meta.json atomically."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from kproxy.captures import private
from kproxy.captures.holes import punch
from kproxy.captures.index import format as layout
from kproxy.captures.index.block import Block
from kproxy.captures.index.summary import Summary
from kproxy.decoders.exchange import Connection, Exchange
from kproxy.decoders.knowledge import Fact

INTERNED = 65_536
"""Number of strings that are remembered, to write each once; the oldest are forgotten and may be written again."""
NAMED = 16_384
"""Number of the newest connections that are remembered, to write their broker's node id once it is known."""


class Mark(NamedTuple):
    """The sizes of the index files when a file of the recording began: the number of rows, and bytes of the other
    files.
    """

    rows: int
    strings: int
    details: int
    problems: int


class _Appended:
    """A file that is only appended to, buffered until `flush`; `end` is its size with buffered bytes."""

    def __init__(self, path: Path, header: bytes) -> None:
        self._fd = _create(path)
        self._pending = bytearray(header)
        self._header = self._gone = len(header)
        self.end = len(header)

    def append(self, data: bytes | bytearray) -> int:
        at = self.end
        self._pending += data
        self.end += len(data)
        return at

    def flush(self) -> None:
        if self._pending:
            _write_all(self._fd, self._pending)
            self._pending.clear()

    def let_go(self, end: int) -> None:
        """Free the disk space of the bytes before `end`."""
        punch(self._fd, self._header, self._gone, end)
        self._gone = max(self._gone, end)

    def close(self) -> None:
        self.flush()
        os.close(self._fd)


class _Table:
    """A file of entries of fixed size: `flush` appends new entries and overwrites changed ones."""

    def __init__(self, path: Path, header: bytes, entry: int) -> None:
        self._fd = _create(path)
        self._header = len(header)
        self._entry = entry
        self._written = 0
        self.first = 0
        """Number of leading entries that were freed and must not be written again."""
        self._tail = bytearray()
        self._patches: dict[int, bytes] = {}
        self.changes = 0
        _write_all(self._fd, header)

    @property
    def count(self) -> int:
        return self._written + len(self._tail) // self._entry

    def put(self, index: int, data: bytes) -> None:
        """Set entries from `index` on; entries before them that were never set are zero."""
        while data and index < self._written:
            self._patches[index] = data[: self._entry]
            index, data = index + 1, data[self._entry :]
        if not data:
            return
        start = (index - self._written) * self._entry
        if start > len(self._tail):
            self._tail += bytes(start - len(self._tail))
        self._tail[start : start + len(data)] = data

    def flush(self) -> None:
        for index, data in _joined(self._patches):
            _write_at(self._fd, data, self._at(index))
        self.changes += len(self._patches)
        self._patches.clear()
        if self._tail:
            # continues behind the last append: pwrite does not move the file offset
            _write_all(self._fd, self._tail)
            self._written += len(self._tail) // self._entry
            self._tail.clear()

    def let_go(self, first: int) -> None:
        """Free the disk space of the entries before `first`, which must all be flushed."""
        punch(self._fd, self._header, self._at(self.first), self._at(first))
        self.first = max(self.first, first)

    def _at(self, index: int) -> int:
        return self._header + index * self._entry

    def overwrite(self, data: bytes, offset: int) -> None:
        os.pwrite(self._fd, data, offset)

    def close(self) -> None:
        self.flush()
        os.close(self._fd)


class IndexWriter:
    """Writes one index directory; `flush` makes rows visible to readers.

    `sources` are the paths of the captures, stored so that a viewer can read bytes from them; with the stored `ports`,
    `release` and `user_definitions` (see captures.reader.read) they can be read again in the same way. `node_of`
    returns the node id of the broker at "host:port", None if unknown; call `name_brokers` when it has learnt more.

    For a ring, whose files are deleted one after the other, call `mark` at the beginning of each file, and `let_go`
    with the mark of the oldest file that exists.
    """

    def __init__(
        self,
        directory: Path,
        sources: list[str],
        *,
        ports: str | None = None,
        release: str | None = None,
        user_definitions: Sequence[str] = (),
        state: str = "indexing",
        node_of: Callable[[str], int | None] = lambda _broker: None,
    ) -> None:
        private.folder(directory)
        self.directory = directory
        # first, because readers infer from meta.json that the other files exist
        (directory / layout.META).unlink(missing_ok=True)
        self._strings = _Appended(directory / layout.STRINGS, layout.pack_strings_header(layout.STRINGS_MAGIC))
        self._details = _Appended(directory / layout.DETAILS, layout.pack_strings_header(layout.DETAILS_MAGIC))
        self._problems = _Appended(directory / layout.PROBLEMS, b"")
        self._knowledge = _Appended(directory / layout.KNOWLEDGE, b"")
        self._rows = _Table(
            directory / layout.ROWS,
            layout.ROWS_HEADER.pack(layout.ROWS_MAGIC, layout.VERSION, layout.ROW_SIZE, 0, 0, 0),
            layout.ROW_SIZE,
        )
        self._connections = _Table(
            directory / layout.CONNECTIONS,
            layout.CONNECTIONS_HEADER.pack(layout.CONNECTIONS_MAGIC, layout.VERSION, layout.CONNECTION_SIZE, 0),
            layout.CONNECTION_SIZE,
        )
        self._interned: dict[str, int] = {"": 0}
        self._node_of = node_of
        self._entries: dict[int, tuple[Connection, layout.ConnectionEntry]] = {}
        self._changes = 0
        self.meta: dict[str, Any] = {
            "format": layout.VERSION,
            "generation": f"{os.getpid()}-{time.time_ns()}",
            "state": state,
            "sources": sources,
            "ports": ports,
            "release": release,
            "given": list(user_definitions),
            "protocols": [],
            "stored": layout.STORED_NAMES,
            "rows": 0,
            "connections": 0,
            "problems": 0,
            "problems_from": 0,
            "bytes_read": 0,
            "bytes_total": None,
            "health": {},
            "error": None,
            "pid": os.getpid(),
        }
        self.flush()
        self.write_meta()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def put(self, exchange: Exchange, summary: Summary | None = None) -> None:
        """Write the row of an exchange in its present state: once when it begins, again when it is complete."""
        self.put_all([(exchange, summary or Summary())])

    def put_all(self, exchanges: Sequence[tuple[Exchange, Summary]]) -> None:
        """Write the rows of several exchanges in their present state."""
        block = Block()
        for exchange, summary in exchanges:
            block.add(exchange, summary, self._protocol(exchange.protocol))
        self.take(block, (exchange.connection for exchange, _ in exchanges))

    def take(self, block: Block, connections: Iterable[Connection]) -> None:
        """Write the rows of a block; `connections` are the connections of the block's exchanges."""
        for connection in connections:
            self._connection(connection)
        ids = [self.string(text) for text in block.strings]
        for number, rows in block.rows(ids, self._details.append(block.details) // 8):
            gone = max(0, self._rows.first - number + 1)
            self._rows.put(number - 1 + gone, rows[gone * layout.ROW_SIZE :])

    def _protocol(self, name: str | None) -> int:
        """The number of a dialect, 0 for Kafka; meta.json lists the dialect before a row has its number."""
        if name is None:
            return 0
        names: list[str] = self.meta["protocols"]
        if name not in names:
            if len(names) == layout.MOST_PROTOCOLS:
                return layout.MOST_PROTOCOLS
            names.append(name)
            self.write_meta()
        return names.index(name) + 1

    def problem(self, problem: dict[str, Any]) -> None:
        """Append a kproxy.problem/1 object."""
        self._problems.append(json.dumps(problem, separators=(",", ":")).encode() + b"\n")
        self.meta["problems"] += 1

    def fact(self, fact: Fact, about: str, known: str) -> None:
        """Append a fact with its subject and value (see `Knowledge.tell`)."""
        line = json.dumps({"fact": fact.value, "about": about, "known": known}, separators=(",", ":"))
        self._knowledge.append(line.encode() + b"\n")

    def name_brokers(self) -> None:
        """Write the node ids known so far to the entries of the remembered connections."""
        for connection, entry in list(self._entries.values()):
            node = self._node(connection)
            if node not in {entry.node, layout.NO_NODE}:
                self._set_connection(connection, entry._replace(node=node))

    def mark(self) -> Mark:
        """Begin a new part of the index, and return the sizes of the files so far.

        Later rows refer to nothing in the earlier parts, so these can be freed.
        """
        self._interned = {"": 0}
        self._entries.clear()
        return Mark(self._rows.count, self._strings.end, self._details.end, self._problems.end)

    def let_go(self, mark: Mark) -> None:
        """Free the disk space of everything written before `mark`; earlier rows are not completed any more."""
        self.flush()
        # first, so that no reader takes freed rows for real ones
        self._rows.overwrite(layout.FIRST.pack(mark.rows), layout.FIRST_OFFSET)
        self.write_meta(problems_from=mark.problems)
        self._rows.let_go(mark.rows)
        self._strings.let_go(mark.strings)
        self._details.let_go(mark.details)
        self._problems.let_go(mark.problems)

    def string(self, text: str) -> int:
        """The id of a string, which is written if it is not remembered."""
        known = self._interned.get(text)
        if known is not None:
            return known
        data = text.encode("utf-8", "replace")
        if len(data) > layout.STRING_LIMIT:
            data = data[: layout.STRING_LIMIT - 3].decode("utf-8", "ignore").encode() + "…".encode()
        padding = -(layout.STRING_LENGTH.size + len(data)) % 4
        at = self._strings.append(layout.STRING_LENGTH.pack(len(data)) + data + bytes(padding))
        if len(self._interned) >= INTERNED:
            for old in list(self._interned)[1 : INTERNED // 4]:
                del self._interned[old]
        self._interned[text] = at // 4
        return at // 4

    def flush(self) -> None:
        """Write all buffers to the files: first what rows refer to, then the rows."""
        self._strings.flush()
        self._connections.flush()
        self._details.flush()
        self._problems.flush()
        self._knowledge.flush()
        self._rows.flush()
        if self._rows.changes + self._connections.changes != self._changes:
            self._changes = self._rows.changes + self._connections.changes
            self._rows.overwrite(layout.CHANGES.pack(self._changes), layout.CHANGES_OFFSET)

    def write_meta(self, **members: Any) -> None:
        """Replace meta.json, with changed values for `members` (state, bytes_read, health, error …)."""
        self.meta.update(members, rows=self._rows.count, connections=self._connections.count)
        private.replace(self.directory / layout.META, json.dumps(self.meta))

    def close(self) -> None:
        self.flush()
        for file in (self._strings, self._details, self._problems, self._knowledge, self._rows, self._connections):
            file.close()

    def _connection(self, connection: Connection) -> None:
        if connection.number not in self._entries:
            entry = layout.ConnectionEntry(
                self.string(connection.client),
                self.string(connection.broker),
                0,
                self._node(connection),
                connection.first_time,
            )
            if len(self._entries) >= NAMED:
                del self._entries[next(iter(self._entries))]
            self._set_connection(connection, entry)

    def _node(self, connection: Connection) -> int:
        node = self._node_of(connection.broker)
        return layout.NO_NODE if node is None else node

    def _set_connection(self, connection: Connection, entry: layout.ConnectionEntry) -> None:
        self._entries[connection.number] = connection, entry
        self._connections.put(connection.number - 1, layout.CONNECTION.pack(*entry))


class NoIndex:
    """Has the methods of `IndexWriter` and writes nothing, for a reading without a viewer."""

    def __init__(self) -> None:
        self.meta: dict[str, Any] = {"state": "following"}

    def put_all(self, exchanges: Sequence[tuple[Exchange, Summary]]) -> None: ...

    def take(self, block: Block, connections: Iterable[Connection]) -> None: ...

    def problem(self, problem: dict[str, Any]) -> None: ...

    def fact(self, fact: Fact, about: str, known: str) -> None: ...

    def name_brokers(self) -> None: ...

    def mark(self) -> Mark:
        return Mark(0, 0, 0, 0)

    def let_go(self, mark: Mark) -> None: ...

    def flush(self) -> None: ...

    def write_meta(self, **members: Any) -> None: ...

    def close(self) -> None: ...


def _joined(entries: dict[int, bytes]) -> Iterator[tuple[int, bytes]]:
    """(index of the first entry, bytes) of each run of adjoining entries."""
    indexes = sorted(entries)
    start = 0
    for end in range(1, len(indexes) + 1):
        if end == len(indexes) or indexes[end] != indexes[end - 1] + 1:
            yield indexes[start], b"".join([entries[index] for index in indexes[start:end]])
            start = end


def _create(path: Path) -> int:
    """Create a file; an old one is replaced, not truncated, because that would kill (SIGBUS) a reader that has it
    mapped.
    """
    path.unlink(missing_ok=True)
    return private.create(path, os.O_WRONLY)


def _write_at(fd: int, data: bytes, offset: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], offset + done)


def _write_all(fd: int, data: bytes | bytearray) -> None:
    view = memoryview(data)
    try:
        while view:
            written = os.write(fd, view)
            view = view[written:]
    finally:
        view.release()
