"""Builds the Java programs of tests/oracle and finds the jars of brokers, by Maven."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from tests.support.require import require

ORACLE = Path(__file__).parent.parent / "oracle"
TARGET = ORACLE / "target"
MAVEN_SECONDS = 600


def maven(project: Path, *arguments: str) -> None:
    """Run Maven on a project file: offline if its local repository suffices, else with the network.

    Raises RuntimeError with Maven's output if both fail.
    """
    require("java", "mvn")
    said = ""
    for mode in (["--offline"], []):
        run = subprocess.run(
            ["mvn", "--batch-mode", "--quiet", "-Dstyle.color=never", *mode, "--file", str(project), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=MAVEN_SECONDS,
            check=False,
        )
        if run.returncode == 0:
            return
        said = run.stdout
    raise RuntimeError(f"mvn {' '.join(arguments)} in {project}: {said[-3000:]}")


def _up_to_date(made: Path, sources: list[Path]) -> bool:
    return made.exists() and made.stat().st_mtime > max(source.stat().st_mtime for source in sources)


def _jars(listing: Path) -> list[str] | None:
    """The class path that Maven wrote; None if one of its jars is missing."""
    jars = listing.read_text().strip().split(":")
    return jars if all(Path(jar).exists() for jar in jars) else None


@functools.cache
def oracle_classpath(release: str) -> str:
    """Class path of the programs of tests/oracle with a release's kafka-clients; builds them if needed."""
    require("java", "mvn")
    target = TARGET / release
    stamp = target / "built"
    sources = [ORACLE / "pom.xml", *ORACLE.glob("src/**/*.java")]
    if not (_up_to_date(stamp, sources) and _jars(target / "classpath")):
        maven(ORACLE / "pom.xml", "compile", f"-Dkafka.version={release}")
        stamp.touch()
    return f"{target / 'classes'}:{(target / 'classpath').read_text().strip()}"


@functools.cache
def members_classpath() -> str:
    """Class path of the program of tests/oracle/members, with Connect and Streams; builds it if needed."""
    require("java", "mvn")
    project = ORACLE / "members" / "pom.xml"
    target = TARGET / "members"
    stamp = target / "built"
    if not (_up_to_date(stamp, [project, *project.parent.glob("src/**/*.java")]) and _jars(target / "classpath")):
        maven(project, "compile")
        stamp.touch()
    return f"{target / 'classes'}:{(target / 'classpath').read_text().strip()}"


def broker_classpath(release: str) -> str:
    """Class path of a broker of a release."""
    return _classpath(f"brokers/kafka-{release}")


def hdfs_classpath() -> str:
    """Class path of a small HDFS."""
    return _classpath("hdfs")


@functools.cache
def _classpath(project: str) -> str:
    """Class path of a project file in tests/oracle that only lists jars."""
    require("java", "mvn")
    file = ORACLE / f"{project}.xml"
    listing = TARGET / f"{file.stem}.classpath"
    if not (_up_to_date(listing, [file]) and _jars(listing)):
        TARGET.mkdir(exist_ok=True)
        maven(file, "dependency:build-classpath", f"-Dmdep.outputFile={listing}")
    return listing.read_text().strip()
