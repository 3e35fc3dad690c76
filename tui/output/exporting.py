"""Exports: the user's choices (exchanges, format, what to leave out, file) and the process that writes them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kproxy.captures.export.output_formats import OUTPUT_FORMATS
from kproxy.captures.outputs import refuse_existing
from kproxy.captures.text import size_text
from kproxy.decoders.extras import installing
from kproxy.decoders.plurals import counted

if TYPE_CHECKING:
    from kproxy.tui.output.commands import Exporter

TAKEN_OUT: Final[Mapping[str, tuple[str, ...]]] = {
    "secrets": (),
    "payloads": ("payloads",),
    "hosts": ("hosts",),
    "payloads+hosts": ("payloads", "hosts"),
}
"""Choices of what to leave out beside secrets, with the presets of --redact for each."""
NOTHING: Final = "nothing"
"""The choice to export secrets as well, offered if the interface shows them."""
SHOWN, MARKED, THIS, ALL = "shown", "marked", "this", "all"
PART: Final = ".part"


@dataclass(frozen=True, slots=True)
class Choice:
    """A set of `count` exchanges that can be exported: those that pass all display filters in `tests`.

    `number` is the number of a single exchange, else None; without `tests` it selects the exchange.
    """

    count: int
    tests: tuple[str, ...] = ()
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """An export that the user asks for; `overwrite` allows to replace an existing file."""

    what: str
    form: str
    leave_out: str
    target: Path
    overwrite: bool = False

    def trouble(self, what: Choice, captures: Sequence[str] = ()) -> str:
        """Why this cannot be exported, "" if it can. An export never replaces the `captures` that are read."""
        form = OUTPUT_FORMATS[self.form]
        if form.single and what.number is None:
            return f"{self.form} holds one exchange: choose “this”"
        if form.needs and find_spec(form.needs) is None:
            return f"{self.form} needs {form.needs}: {installing(form.extra)}"
        if not self.target.name:
            return "name a file"
        if self.target.is_dir() and form.suffix:
            return f"{self.target} is a folder"
        if not self.target.parent.is_dir():
            return f"there is no folder {self.target.parent}"
        if self.exists and any(_same(self.target, Path(one)) for one in captures):
            return f"{self.target} is the capture that is read here: name another file"
        if not what.count:
            return "there is nothing to export"
        return ""

    @property
    def exists(self) -> bool:
        return self.target.exists() or self.target.is_symlink()


def default_target(captures: Sequence[str], form: str, what: str, number: int | None, stem: str = "") -> Path:
    """An unused name in the working directory: CAPTURE-shown.csv, CAPTURE-417.html.

    `stem` replaces CAPTURE if the user has not named the capture.
    """
    if captures and not stem:
        stem = Path(captures[0].removesuffix(".gz").removesuffix(".zst").removesuffix(".xz")).stem
    label = str(number) if what == THIS and number is not None else what
    name = f"{stem or 'kproxy'}-{label}"
    suffix = OUTPUT_FORMATS[form].suffix
    found = Path(f"{name}{suffix}")
    more = 1
    while found.exists():
        more += 1
        found = Path(f"{name}-{more}{suffix}")
    return found


def numbers_test(numbers: Iterable[int]) -> str:
    """A filter of exchanges by their numbers; adjoining numbers become a range."""
    ordered = sorted(set(numbers))
    # numbers count from 1, so that -1 adjoins none
    starts = [one for before, one in pairwise([-1, *ordered]) if one != before + 1]
    ends = [one for one, after in pairwise([*ordered, -1]) if after != one + 1]
    single = [str(start) for start, end in zip(starts, ends, strict=True) if start == end]
    ranges = [f"exchange >= {start} and exchange <= {end}" for start, end in zip(starts, ends, strict=True)
              if start != end]  # fmt: skip
    tests = [f"exchange == {single[0]}"] if len(single) == 1 else [f"exchange in ({', '.join(single)})"] * bool(single)
    tests += [f"({one})" for one in ranges] if len(ranges) + len(tests) > 1 else ranges
    return " or ".join(tests)


def arguments(exporter: Exporter, captures: Sequence[str], what: Choice, wanted: Wanted, target: Path) -> list[str]:
    """The arguments of `kproxy export`."""
    found = [*exporter.options, *exporter.viewing, "--format", wanted.form]
    if what.tests:
        text = what.tests[0] if len(what.tests) == 1 else " and ".join(f"({test})" for test in what.tests)
        found += ["--filter", text]
        found += ["--count", "1"] if OUTPUT_FORMATS[wanted.form].single else []
    elif what.number is not None:
        found += ["--exchange", str(what.number)]
    for preset in TAKEN_OUT.get(wanted.leave_out, ()):
        found += ["--redact", preset]
    if wanted.leave_out == NOTHING:
        found.append("--show-secrets")
    return [*found, "--output", str(target), "--", *captures]


class Export:
    """One export in a separate process, which writes a part file that is renamed when complete.

    The process leads a session, so that it and its helpers can be ended together. Call `poll` regularly.
    """

    def __init__(
        self, exporter: Exporter, captures: Sequence[str], what: Choice, wanted: Wanted, notes: Sequence[str] = ()
    ) -> None:
        """Start the process; `notes` become part of the closing message. Raises OSError."""
        self.wanted = wanted
        self._notes = list(notes)
        self._counts: dict[str, Any] = {}
        self._unread = b""
        self._replaces = wanted.target.is_dir()
        target = wanted.target
        self._part = target if self._replaces else _unused(target)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `_end`)
        read, write = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*exporter.program, "--tell", str(write), *arguments(exporter, captures, what, wanted, self._part)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=(write,),
                start_new_session=True,
            )
        except OSError:
            os.close(read)
            self._stderr.close()
            raise
        finally:
            os.close(write)
        self._progress = read
        fcntl.fcntl(read, fcntl.F_SETFL, fcntl.fcntl(read, fcntl.F_GETFL) | os.O_NONBLOCK)
        self.running = True
        self.failed = False
        self.closing = ""
        """The message about the result, once the export is over."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def said(self) -> str:
        """The progress as text for the status line."""
        read, total = self._counts.get("read"), self._counts.get("total")
        percent = f" {min(100, 100 * read // total)} %" if read is not None and total else ""
        return f"exporting{percent} to {self.wanted.target.name}"

    def poll(self) -> bool:
        """Read progress from the process; True once, when it has ended."""
        if not self.running:
            return False
        self._read()
        code = self._process.poll()
        if code is None:
            return False
        self._read()
        self._end(code)
        return True

    def stop(self) -> None:
        """End the process and remove what it has written."""
        if not self.running:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2)
                break
        self._close()
        self._remove()
        self.failed = True
        self.closing = f"export to {self.wanted.target} stopped; nothing is left of it"
        if self._replaces:
            self.closing = f"export to {self.wanted.target} stopped; some of its tables may be replaced"

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._progress, 1 << 16):
                *lines, self._unread = (self._unread + data).split(b"\n")
                for line in lines:
                    self._counts |= json.loads(line)

    def _close(self) -> None:
        self.running = False
        os.close(self._progress)
        self._stderr.close()

    def _end(self, code: int) -> None:
        self._stderr.seek(0)
        words = [line.removeprefix("kproxy: ") for line in self._stderr.read().decode("utf-8", "replace").splitlines()]
        words = [line for line in words if line.strip()]
        self._close()
        # exit code 3: the capture cannot be read to its end, and is exported up to there
        whole = code == 0 or (code == 3 and "exchanges" in self._counts)
        if whole:
            try:
                if not self._replaces:
                    refuse_existing(self.wanted.target, overwrite=self.wanted.overwrite)
                    self._part.replace(self.wanted.target)
            except OSError as error:
                whole, words = False, [f"{self.wanted.target}: {error.strerror}"]
        if not whole:
            self._remove()
            self.failed = True
            self.closing = f"nothing exported: {words[-1] if words else f'the export ended with {code}'}"
            return
        self.failed = code != 0
        count = self._counts.get("exchanges", 0)
        parts = [
            counted(count, "exchange", ","),
            f"{size_text(_bytes(self.wanted.target))}B in {self.wanted.target}",
            "secrets shown" if self.wanted.leave_out == NOTHING else "secrets withheld",
            *self._notes,
            *words,
        ]
        self.closing = "; ".join(parts)

    def _remove(self) -> None:
        if self._replaces:
            return
        if self._part.is_dir():
            shutil.rmtree(self._part, ignore_errors=True)
        else:
            self._part.unlink(missing_ok=True)


def _unused(target: Path) -> Path:
    """An unused name beside the target, for the part file."""
    found, more = target.with_name(f"{target.name}{PART}"), 1
    while found.exists() or found.is_symlink():
        more += 1
        found = target.with_name(f"{target.name}{PART}-{more}")
    return found


def _same(one: Path, other: Path) -> bool:
    with contextlib.suppress(OSError):
        return one.samefile(other)
    return False


def _bytes(path: Path) -> int:
    """Size of a file, or of all files of a folder, in bytes."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())


def of_line(text: str, default: Wanted) -> Wanted:
    """The export `default` with the format and the file of a text "FORMAT FILE". Raises ValueError for other texts."""
    words = shlex.split(text)
    form = words[0] if words else default.form
    if form not in OUTPUT_FORMATS:
        raise ValueError(f"no format {form}; there are {', '.join(OUTPUT_FORMATS)}")
    if len(words) > 2:
        raise ValueError("give one format and one file; quote a file name with spaces")
    found = replace(default, form=form)
    return replace(found, target=Path(words[1]).expanduser()) if len(words) == 2 else found
