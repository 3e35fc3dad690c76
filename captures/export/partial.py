"""Resumable output: another run can continue the file of an interrupted run.

The file is FILE.part until it is complete. FILE.part.json beside it, a journal that is replaced atomically, records
what the file's content depends on, and how much of the file is complete (`captures.export.parallel.Stage`). A run that
resumes truncates the rest.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

from kproxy.captures import private
from kproxy.captures.export.parallel import Stage
from kproxy.captures.outputs import ADVICE
from kproxy.captures.stamps import ends

PATIENCE: Final = 20.0
"""Seconds to wait for the file: when a run has died, its workers hold the file until they notice."""
_PAUSE: Final = 0.05
_NOTHING: Final = Stage(0, [], {})


class PartialError(Exception):
    """The partial output cannot be resumed; the message says why."""


class Partial:
    """A context for an output: write to `out`; it becomes the file `target` if the context ends without an exception.

    `made_of` (JSON values) is everything that the content depends on. If an interrupted run had the same, `stage` is
    its progress, and `out` is positioned after its complete part. Raises PartialError if that run had something else,
    if the files are damaged, while another process writes, or if FILE.part is a foreign file (unless `overwrite`);
    OSError if the file cannot be written.
    """

    def __init__(self, target: Path, made_of: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self._target = target.resolve()
        self._part = self._target.with_name(self._target.name + ".part")
        self._journal = self._part.with_name(self._part.name + ".json")
        self._made_of = json.loads(json.dumps(made_of))
        self._overwrite = overwrite
        self.stage: Stage | None = None
        """The progress of the interrupted run; None if there was none."""
        self.out = self._claim()
        try:
            size = self._resume()
            self.out.truncate(size)
            self.out.seek(size)
            if self.stage is None:
                self.reached(_NOTHING)  # a journal, by which a later run recognises the file
        except BaseException:
            self.out.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.out:
            if kind is None:
                self._sync()
                self._part.replace(self._target)
                self._journal.unlink(missing_ok=True)

    def reached(self, stage: Stage) -> None:
        """Record that the file, as flushed, is complete up to a stage, counted from the start of this run."""
        before = self.stage or _NOTHING
        self._sync()
        descriptor = self.out.fileno()
        size = os.lseek(descriptor, 0, os.SEEK_CUR)
        items = before.items + stage.items
        journal = {
            "made_of": self._made_of,
            "size": size,
            "ends": ends(descriptor, size),
            "stage": stage._replace(items=items)._asdict(),
        }
        private.replace(self._journal, json.dumps(journal))

    def _sync(self) -> None:
        """Sync the file to disk: after a power failure, its journal never counts bytes that the file lacks."""
        self.out.flush()
        os.fsync(self.out.fileno())

    def _claim(self) -> BinaryIO:
        """The file, opened and locked until this process and all that it forks have ended. Raises PartialError if it is
        in use.
        """
        until = time.monotonic() + PATIENCE
        while True:
            out = private.appended(self._part, buffering=1 << 20)
            with contextlib.suppress(BlockingIOError, FileNotFoundError):
                fcntl.flock(out.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(out.fileno()), self._part.stat()):
                    return out  # otherwise another process has completed and renamed it
            out.close()
            if time.monotonic() > until:
                raise PartialError(f"{self._part}: another process writes it")
            time.sleep(_PAUSE)

    def _resume(self) -> int:
        """The number of bytes that an earlier run completed; sets `stage` to its progress. Raises PartialError."""
        if not os.fstat(self.out.fileno()).st_size:
            self._journal.unlink(missing_ok=True)  # the user removed FILE.part to start over
        try:
            journal = json.loads(self._journal.read_bytes())
            made_of, size, digest, stage = (journal[name] for name in ("made_of", "size", "ends", "stage"))
            before = Stage(**stage)
        except FileNotFoundError:
            if os.fstat(self.out.fileno()).st_size and not self._overwrite:
                raise PartialError(f"{self._part}: {ADVICE}") from None
            return 0
        except (ValueError, KeyError, TypeError):
            raise PartialError(f"{self._journal}: not a journal of an export; remove it to begin again") from None
        if made_of != self._made_of:
            names = sorted(name for name in {*made_of, *self._made_of} if made_of.get(name) != self._made_of.get(name))
            raise PartialError(f"{self._part}: was started with different {', '.join(names)}; remove it to begin again")
        if os.fstat(self.out.fileno()).st_size < size or ends(self.out.fileno(), size) != digest:
            raise PartialError(f"{self._part}: was changed since it was begun; remove it to begin again")
        self.stage = before if before.items else None
        return int(size)
