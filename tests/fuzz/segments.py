"""Any bytes offered as a log segment give batches and an end, or are no segment, whole or as they come.

Nothing is raised; each byte belongs to one batch, to the tail or to zeros; all of it prints as JSON, and the same from
a compressed file.
"""

from __future__ import annotations

import gzip
import lzma
import os
import tempfile
from pathlib import Path
from random import Random

import lz4.frame
import zstandard

from kproxy.captures.export.segments import StoredRecords, batch_lines
from kproxy.captures.segments import Segment, SegmentReader, StoredBatch, holds_segments
from kproxy.captures.source import SpoolSource
from kproxy.captures.spool import Spooling
from kproxy.decoders.view import View
from tests.captures.memory import MemorySource
from tests.decoders.batches.support import batch, message, record

LIMIT = 1 << 20
PACKERS = (gzip.compress, lzma.compress, lz4.frame.compress, zstandard.ZstdCompressor().compress)
CODECS = (gzip.compress, None, lz4.frame.compress, zstandard.ZstdCompressor().compress)
"""By their numbers in a batch's attributes, from 1 on."""


def once(random: Random) -> None:
    data = _segment(random)
    view = View(batch_limit=LIMIT)
    items = list(SegmentReader(MemorySource(data), view))
    position = 0
    for item in items[:-1]:
        assert isinstance(item, StoredBatch)
        assert item.position == position
        position += item.form["sizeInBytes"]
    end = items[-1]
    assert isinstance(end, Segment)
    assert position + end.tail == len(data) or not any(data[position:])
    text = b"".join(batch_lines(items))
    list(StoredRecords().lines(items))
    packed = random.choice(PACKERS)(data)
    with tempfile.TemporaryFile() as file:
        file.write(packed[: random.randrange(len(packed) + 1)] if random.random() < 0.3 else packed)
        file.seek(0)
        source = SpoolSource(file, "memory", Spooling(Path(tempfile.gettempdir())))
        found = holds_segments(source)
        reader = SegmentReader(source, view)
        again = b"".join(batch_lines(reader))
        source.close()
        if os.fstat(file.fileno()).st_size == len(packed):
            assert again.replace(b'"file":"-"', b'"file":"memory"') == text
            assert found == holds_segments(MemorySource(data))


def _segment(random: Random) -> bytes:
    parts = []
    for _ in range(random.randrange(6)):
        kind, offset = random.randrange(4), random.randrange(-3, 1000)
        if kind < 2:
            count = random.randrange(4)
            records = b"".join(record(i, random.randbytes(3), _value(random)) for i in range(count))
            codec = random.randrange(5)
            pack = CODECS[codec - 1] if codec else None
            attributes = (codec if pack else 0) | random.choice((0, 0, 8, 16, 32, 48, 64))
            parts.append(batch(pack(records) if pack else records, count, offset=offset, attributes=attributes))
        elif kind == 2:
            parts.append(message(random.randrange(2), offset, None, _value(random)))
        else:
            inner = b"".join(message(1, i, None, _value(random)) for i in range(3))
            parts.append(message(1, offset, None, gzip.compress(inner), attributes=1))
    data = bytearray(b"".join(parts) + bytes(random.choice((0, 0, 0, 5, 40))))
    for _ in range(random.choice((0, 0, 1, 3))):
        at = random.randrange(len(data) + 1)
        data[at : at + random.choice((0, 1, 4))] = random.randbytes(random.choice((0, 1, 4, 30)))
    return bytes(data[: random.randrange(len(data) + 1)] if random.random() < 0.3 else data)


def _value(random: Random) -> bytes:
    return random.choice((b"text", random.randbytes(20), b"\x01\x0b\x00" + random.randbytes(12), b""))
