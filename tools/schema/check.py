"""Reports differences between the newest Kafka release and our data: `python -m tools.schema.check`.

Exit code: 0 if there are none, 1 if there are some, 2 if Maven or Java fails.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kproxy.decoders.schema import Definitions, definitions
from kproxy.decoders.schema.errors import all_errors
from kproxy.decoders.schema.model import Message, Versions
from tools.schema import facts, internal, jars
from tools.schema.layout import layout


def main() -> int:
    ours = definitions()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            newest = jars.fetch(f"[{ours.release},)", Path(scratch))
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"make schema-check: {jars.explained(error)}\n")
        return 2
    found = list(differences(newest, ours))
    if not found:
        sys.stdout.write(f"kafka-clients {newest.version}, the newest release, has nothing that our data lack\n")
        return 0
    sys.stdout.write(f"kafka-clients {newest.version} differs from our data of {ours.release}:\n")
    sys.stdout.writelines(f"  {line}\n" for line in found)
    return 1


def differences(newest: jars.Release, ours: Definitions) -> Iterator[str]:
    """A line for each API, version, layout and error of `newest` that differs from our data or is missing there."""
    for key, fact in sorted(newest.apis.items()):
        versions = [row[0] for row in fact["versions"]]
        theirs = Versions(min(versions), max(versions)) if versions else None
        api = ours.api(key)
        if api is None:
            yield f"new API {key} {fact['name']} v{theirs}"
            continue
        if api.name != fact["name"] and theirs is not None:
            yield f"API {key} {api.name} is now called {fact['name']}"
        if api.spoken.get(ours.release) != theirs:
            before = api.spoken.get(ours.release)
            yield f"API {key} {fact['name']} now has {_shown(theirs)}, we know {_shown(before)}"
        if theirs is not None and bool(api.unstable) != fact["unstable"]:
            yield f"API {key} {fact['name']}: the latest version is now {'un' if fact['unstable'] else ''}stable"
    known = {_identity(message): message for message in ours.messages() if message.release == ours.release}
    for definition in newest.definitions.values():
        theirs_now = facts.parsed(facts.compact(definition, newest.version, unstable=False))
        if theirs_now.versions:
            yield from _message_differences(known.get(_identity(theirs_now)), theirs_now)
    streams = internal.streams_facts(newest)
    for row in (*streams, *internal.record_facts(newest).values()):
        theirs_now = facts.parsed(row)
        yield from _message_differences(_ours(ours, theirs_now), theirs_now)
    errors = all_errors()
    for code, fact in sorted(newest.errors.items()):
        error = errors.get(code)
        if error is None:
            yield f"new error {code} {fact['name']}"
        elif _error(error._asdict()) != _error(fact):
            yield f"error {code} is now {_error(fact)}"


def _message_differences(ours: Message | None, theirs: Message) -> Iterator[str]:
    if ours is None:
        if theirs.api_key is None:
            yield f"new message {theirs.name} v{theirs.versions}"
        return
    if theirs.api_key is None and ours.versions != theirs.versions:
        yield f"{theirs.name} now has v{theirs.versions}, we know v{ours.versions}"
    for version in range(theirs.versions.low, theirs.versions.high + 1):
        if version in ours.versions and layout(ours, version) != layout(theirs, version):
            yield f"{theirs.name} v{version} has another layout or other names"


def _ours(ours: Definitions, theirs: Message) -> Message | None:
    """Our definition that corresponds to `theirs`; a record is found by topic, kind and number, others by name."""
    if theirs.topic is None or theirs.record_type is None:
        return ours.message(theirs.name, theirs.versions.low)
    return ours.record(theirs.topic, theirs.kind, theirs.record_type, theirs.versions.low)


def _error(facts: Mapping[str, Any]) -> str:
    ask = ", ask for metadata" if facts["refresh_metadata"] else ""
    return f"{facts['name']}, {'' if facts['retriable'] else 'not '}retriable{ask}"


def _identity(message: Message) -> tuple[str, int | str]:
    return message.kind, message.name if message.api_key is None else message.api_key


def _shown(versions: Versions | None) -> str:
    return "no versions" if versions is None else f"v{versions}"


if __name__ == "__main__":
    sys.exit(main())
