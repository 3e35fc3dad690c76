"""The clients that are tried, each with its version and its command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.support.java import oracle_classpath
from tests.support.require import require

HERE: Final = Path(__file__).parent
JAVA_RELEASE: Final = "4.4.0"
BUILD_SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class Client:
    version: str
    command: tuple[str, ...]


def _python(module: str, package: str) -> Callable[[Path], Client]:
    return lambda _: Client(version(package), (sys.executable, "-m", f"tests.torture.clients.{module}"))


def _librdkafka(_: Path) -> Client:
    from confluent_kafka import libversion

    return Client(libversion()[0], (sys.executable, "-m", "tests.torture.clients.librdkafka"))


def _java(folder: Path) -> Client:
    classes = folder / "java"
    path = oracle_classpath(JAVA_RELEASE)
    _build(["javac", "-cp", path, "-d", str(classes), str(HERE / "Torture.java")], HERE)
    small = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return Client(JAVA_RELEASE, ("java", *small, "-cp", f"{classes}:{path}", "Torture"))


def _franz(folder: Path) -> Client:
    require("go")
    source = HERE / "franz"
    program = folder / "franz"
    _build(["go", "build", "-o", str(program), "."], source)
    found = re.search(r"twmb/franz-go v(\S+)", (source / "go.mod").read_text())
    assert found is not None
    return Client(found[1], (str(program),))


def _build(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr


CLIENTS: Final[dict[str, Callable[[Path], Client]]] = {
    "librdkafka": _librdkafka,
    "java": _java,
    "aiokafka": _python("aio", "aiokafka"),
    "kafka-python": _python("pure", "kafka-python"),
    "franz-go": _franz,
}
"""How a client is built in a folder, by its name."""
