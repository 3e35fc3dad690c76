"""What a kafka-clients release holds: its message definitions and the facts of its enums."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JAVA = Path(__file__).parent / "java"
TIMEOUT = 600

_COMMENT_OR_STRING = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*')


@dataclass(frozen=True)
class Release:
    """`definitions` by message name, as the JSON files say; `apis` and `errors` by number, as `java/Facts.java`."""

    version: str
    definitions: dict[str, dict[str, Any]]
    apis: dict[int, dict[str, Any]]
    errors: dict[int, dict[str, Any]]


def read_commented_json(text: str) -> Any:
    """JSON with `//` comments, as Kafka writes its definitions. Raises ValueError on bad JSON."""
    return json.loads(_COMMENT_OR_STRING.sub(lambda found: found[0] if found[0][0] == '"' else "", text))


def fetch(version: str, into: Path) -> Release:
    """Fetch kafka-clients through Maven and read it.

    `version` is a version or a Maven range of them ("[4.4.0,)" is the newest). Raises CalledProcessError where Maven
    or Java fail.
    """
    _run(
        [
            *("mvn", "-q", "-B", "-U", "-f", str(JAVA / "pom.xml"), "dependency:copy-dependencies"),
            *(f"-DoutputDirectory={into}", f"-Dkafka.version={version}"),
        ]
    )
    (jar,) = into.glob("kafka-clients-*.jar")
    with zipfile.ZipFile(jar) as archive:
        definitions = [
            read_commented_json(archive.read(name).decode())
            for name in sorted(archive.namelist())
            if name.startswith("common/message/") and name.endswith(".json")
        ]
    facts = [json.loads(line) for line in _run(["java", "-cp", f"{into}/*", str(JAVA / "Facts.java")]).splitlines()]
    return Release(
        version=jar.stem.removeprefix("kafka-clients-"),
        definitions={definition["name"]: definition for definition in definitions},
        apis={fact["api"]: fact for fact in facts if "api" in fact},
        errors={fact["error"]: fact for fact in facts if "error" in fact},
    )


def explained(error: OSError | subprocess.SubprocessError) -> str:
    """What went wrong with Maven or Java, in words for the developer."""
    if isinstance(error, FileNotFoundError):
        return f"{error.filename} is not installed"
    output = getattr(error, "stderr", None)
    return f"{output}\n{error}" if output else str(error)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stdout + done.stderr)
    return done.stdout
