"""Rows of a reading made by several processes; the one that reads deals exchanges out, learns, and writes.

What a row says depends on what was learnt before it. The process that reads learns it all without making rows, and a
process is told what is new to it with the exchanges that come after.
"""

from __future__ import annotations

import contextlib
import marshal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from captures.crew import Crew
from captures.errors import CaptureError
from captures.export.packing import pack, unpack
from captures.export.parallel import usable_cores
from captures.index.block import Block
from captures.index.summary import Summariser
from captures.source import FileSource
from decoders.exchange import Connection, Exchange
from decoders.knowledge import Fact, Knowledge
from decoders.schema import Definitions

SMALL: Final = 16 << 20
"""Bytes of captures below which further processes would cost more than they save."""
MOST: Final = 4
"""Reading is one process's, so that more do not help."""


def helpful(source: FileSource) -> int:
    """How many processes should make rows beside the one that reads; 0 where none helps with what is there by now."""
    return min(usable_cores() - 1, MOST) if source.size >= SMALL and not source.streams else 0


class RowMakers:
    """Processes that make blocks of rows of the exchanges of a source, in their order."""

    def __init__(self, source: FileSource, definitions: Definitions, jobs: int, known: Knowledge) -> None:
        """`known` is what was learnt before."""
        self._source = source
        self._summaries = Summariser(source, definitions)
        self._summaries.knowledge.facts = known.facts
        self._connections: deque[list[Connection]] = deque()
        self._crew = Crew(self._answer, jobs)
        self._news: list[list[tuple[str, str, str]]] = [[] for _ in range(jobs)]
        """Of each process, the facts that it has not been told yet."""
        self._dealt = 0

    def tell(self, fact: Fact, about: str, known: str) -> None:
        """What has been learnt (`Knowledge`) of the exchanges that were dealt."""
        for news in self._news:
            news.append((fact.value, about, known))
        # for what this process has to answer when another one has died
        self._summaries.knowledge.take(fact, about, known)

    def deal(self, exchanges: Sequence[Exchange]) -> Iterator[tuple[Block, list[Connection]]]:
        """Have rows made of these; yields what has become ready, with the connections of its exchanges."""
        turn = self._dealt % len(self._news)
        self._dealt += 1
        news, self._news[turn] = self._news[turn], []
        message = marshal.dumps((news, pack(exchanges, self._source.size)))
        yield from self._ready(self._crew.deal(message))
        self._connections.append(list({one.connection.number: one.connection for one in exchanges}.values()))

    def rest(self) -> Iterator[tuple[Block, list[Connection]]]:
        """What has not been ready yet."""
        return self._ready(self._crew.rest())

    def close(self) -> None:
        self._crew.close()

    def _ready(self, replies: Iterable[bytes]) -> Iterator[tuple[Block, list[Connection]]]:
        for reply in replies:
            yield Block.unpack(reply), self._connections.popleft()

    def _answer(self, message: bytes) -> bytes:
        """What the processes do."""
        news, packed = marshal.loads(message)  # noqa: S302 (ours)
        for fact, about, known in news:
            self._summaries.knowledge.take(Fact(fact), about, known)
        items, size = unpack(packed)
        if self._source.size < size:
            with contextlib.suppress(CaptureError):  # told by the process that reads
                self._source.catch_up()
        block = Block()
        for item in items:
            if isinstance(item, Exchange):
                block.add(item, self._summaries.of(item))
        return block.pack()
