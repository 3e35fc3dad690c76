"""The process that reads a capture and writes its index: python -m captures.index.indexer CAPTURE... INDEX_DIR."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from captures.index.summary import Summariser
from captures.index.writer import IndexWriter
from decoders import schema

POLL_SECONDS = 0.05
"""How often a followed capture is asked for more: what a row adds to the age of what is seen."""
META_SECONDS = 0.5


class Indexer:
    """One reading on its way into an index; `step` takes in what the capture holds now."""

    def __init__(
        self,
        captures: list[Path],
        directory: Path,
        *,
        ports: str | None = None,
        release: str | None = None,
        follow: bool = False,
    ) -> None:
        from captures import reader

        self._definitions = schema.definitions(release)
        self.reader: Any = reader.read(captures, ports=ports, release=release, follow=follow)
        self.writer = IndexWriter(
            directory,
            [str(path) for path in captures],
            release=release,
            state="following" if follow else "indexing",
        )
        self._summaries = Summariser(self.reader.source, self._definitions)
        self._connections: dict[int, str] = {}
        self._nodes_known = 0
