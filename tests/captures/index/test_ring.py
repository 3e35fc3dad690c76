"""The index of a ring holds no rows of files that were deleted."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from kproxy.captures.index.indexer import Indexer
from kproxy.captures.index.reader import IndexReader
from tests.captures import files, traffic


def test_rows_leave_with_their_file_although_no_other_file_begins(tmp_path: Path) -> None:
    """The recording begins a new file before it deletes the oldest one, so the index may have gone on already."""
    ring, index = tmp_path / "ring", tmp_path / "index"
    ring.mkdir()
    taken = traffic.packets(traffic.KAFKA_1_1)
    first = files.write(ring / "seg-000001.pcapng", traffic.pcapng(taken[:300]))
    files.write(ring / "seg-000002.pcapng", traffic.pcapng(taken[300:600]))
    alone = len(traffic.exchanges(traffic.exported(first)))
    with closing(Indexer([ring], index, follow=True)) as indexer:
        while indexer.step():
            pass
        indexer.writer.flush()
        with IndexReader(index) as rows:
            assert (rows.first, rows.count > alone) == (0, True)
            first.unlink()
            indexer.step()
            assert rows.refresh()
            assert rows.first == alone > 0
