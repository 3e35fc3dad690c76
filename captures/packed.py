"""Memory views of zstd files; the most recent ones are kept decompressed in unnamed temporary files."""

from __future__ import annotations

import mmap
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from kproxy.captures.errors import CaptureError
from kproxy.captures.spool import MARGIN
from kproxy.decoders.plurals import counted

MOST_OPEN = 3
"""Number of decompressed files that are kept; older ones disappear when no slice of them is in use."""
LARGEST = 64 << 30
"""Maximum decompressed size in bytes that a file's header may declare."""
_PIECE = 1 << 20
_HEADER = 18
"""Size in bytes of the longest zstd frame header."""


def packed_size(path: Path) -> int:
    """The decompressed size of a zstd file in bytes, from its header.

    Raises CaptureError if the file is missing, is not zstd, or does not declare its size.
    """
    import zstandard

    try:
        with path.open("rb") as file:
            size = zstandard.frame_content_size(file.read(_HEADER))
    except OSError as error:
        raise CaptureError(error.strerror or str(error), path) from None
    except zstandard.ZstdError as error:
        raise CaptureError(f"not a zstd file ({error})", path) from None
    if not 0 <= size <= LARGEST:
        raise CaptureError("the zstd header gives no plausible decompressed size", path)
    return size


class Unpacked:
    """Decompresses zstd files into temporary files of at most `most` bytes and keeps the most recent MOST_OPEN.

    `directory` returns the folder of the temporary files.
    """

    def __init__(self, directory: Callable[[], Path], most: int) -> None:
        self._directory = directory
        self._most = most
        self._open: OrderedDict[Path, memoryview] = OrderedDict()

    def view(self, path: Path, size: int) -> memoryview | None:
        """The `size` decompressed bytes of a zstd file, None if the file was deleted.

        Raises CaptureError if it cannot be decompressed to `size` bytes.
        """
        view = self._open.get(path)
        if view is None:
            try:
                view = self._unpack(path, size)
            except FileNotFoundError:
                return None
            self._open[path] = view
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        else:
            self._open.move_to_end(path)
        return view

    def close(self) -> None:
        self._open.clear()

    def _unpack(self, path: Path, size: int) -> memoryview:
        import zstandard

        with path.open("rb") as packed:
            try:
                return self._spooled(packed.fileno(), size)
            except OSError as error:
                raise CaptureError(f"cannot be decompressed: {error.strerror or error}", path) from None
            except (zstandard.ZstdError, ValueError) as error:
                raise CaptureError(f"cannot be decompressed: {error}", path) from None

    def _spooled(self, packed: int, size: int) -> memoryview:
        import zstandard

        directory = self._directory()
        if size > self._most:
            raise ValueError(f"it is larger than {self._most} bytes (--spool-max)")
        if size + MARGIN > shutil.disk_usage(directory).free:
            raise ValueError("there is no room for it (--spool-dir)")
        with tempfile.TemporaryFile(dir=directory) as file:
            decompressor = zstandard.ZstdDecompressor()
            got = 0
            with open(packed, "rb", closefd=False) as source, decompressor.stream_reader(source) as stream:
                while piece := stream.read(_PIECE):
                    got += len(piece)
                    if got > size:
                        break
                    file.write(piece)
            if got != size:
                raise ValueError(f"its size differs from the {counted(size, 'byte')} of its header")
            if not size:
                return memoryview(b"")
            file.flush()
            return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
