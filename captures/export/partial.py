"""An output that is on its way: a file that another run goes on with where this one was ended.

It is FILE.part until it is complete. FILE.part.json beside it, a journal that is replaced as a whole, says what it is
made of and how much of it stands (`captures.export.parallel.Stage`). What is behind that is cut off and made again.
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
"""Seconds until processes that outlived the run which forked them must have noticed."""
_PAUSE: Final = 0.05
_NOTHING: Final = Stage(0, [], {})


class PartialError(Exception):
    """What was begun cannot be gone on with, in words."""


class Partial:
    """An output that will be `target` where this context ends well; `out` is what to write to.

    `made_of` (JSON values) is all that its bytes depend on. Where a run that was ended had the same, `stage` says how
    far it came, and `out` stands behind what belongs to that. Raises PartialError where it had something else, where
    the files are damaged, while another process writes, or where FILE.part is somebody else's (unless `overwrite`);
    OSError where the file cannot be written.
    """

    def __init__(self, target: Path, made_of: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self._target = target.resolve()
        self._part = self._target.with_name(self._target.name + ".part")
        self._journal = self._part.with_name(self._part.name + ".json")
        self._made_of = json.loads(json.dumps(made_of))
        self._overwrite = overwrite
        self.stage: Stage | None = None
        """How far an earlier run came; None where there was none."""
        self.out = self._claim()
        try:
            size = self._resume()
            self.out.truncate(size)
            self.out.seek(size)
            if self.stage is None:
                self.reached(_NOTHING)  # so that a later run knows the file for its own
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
        """What was flushed to the file is complete up to a stage, counted from where this run began."""
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
        """A machine that loses power must not remember the journal alone."""
        self.out.flush()
        os.fsync(self.out.fileno())

    def _claim(self) -> BinaryIO:
        """The file, for this process and those that it forks alone: all must be gone before another one may."""
        until = time.monotonic() + PATIENCE
        while True:
            out = private.appended(self._part, buffering=1 << 20)
            with contextlib.suppress(BlockingIOError, FileNotFoundError):
                fcntl.flock(out.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(out.fileno()), self._part.stat()):
                    return out  # else who had it before has completed it
            out.close()
            if time.monotonic() > until:
                raise PartialError(f"{self._part}: another process writes it")
            time.sleep(_PAUSE)

    def _resume(self) -> int:
        """Bytes that an earlier run completed; takes its stage."""
        if not os.fstat(self.out.fileno()).st_size:
            self._journal.unlink(missing_ok=True)  # FILE.part was removed to begin again
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
            raise PartialError(f"{self._part}: was begun with other {', '.join(names)}; remove it to begin again")
        if os.fstat(self.out.fileno()).st_size < size or ends(self.out.fileno(), size) != digest:
            raise PartialError(f"{self._part}: was changed since it was begun; remove it to begin again")
        self.stage = before if before.items else None
        return int(size)
