"""Writes the data files of `decoders.schema` from the jars of Kafka's releases.

`python -m tools.schema.update [DIRECTORY]`; without a directory the package's own data are written.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import kproxy.decoders.schema
from kproxy.decoders.schema import history, irregular
from kproxy.decoders.schema.model import Message, Versions
from tools.schema import facts, internal, jars
from tools.schema.layout import layout

RELEASES = ("4.4.0", "3.9.2")
"""The releases whose definitions are kept; the first is the newest, and its definitions take precedence.

3.9 is the last release with ZooKeeper and all versions since 0.8.
"""

BETWEEN = ("4.3.0", "4.2.0", "4.1.0", "4.0.1", "4.0.0")
"""Releases of which only the versions of requests are kept (served.jsonl): an upgrade may go to any of them."""

Json = dict[str, Any]
Identity = tuple[str, int | str]


def main(arguments: list[str]) -> int:
    target = Path(arguments[0]) if arguments else Path(kproxy.decoders.schema.__file__).parent / "data"
    try:
        with tempfile.TemporaryDirectory() as scratch:
            releases = [jars.fetch(version, Path(scratch) / version) for version in RELEASES]
            between = [jars.fetch_clients(version, Path(scratch) / version) for version in BETWEEN]
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"make schema: {jars.explained(error)}\n")
        return 2
    if complaints := list(check(releases)):
        sys.stderr.write("".join(f"make schema: {complaint}\n" for complaint in complaints))
        return 1
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, text in data_files(releases).items():
        (target / name).write_text(text)
    (target / "served.jsonl").write_text(_lines(served_facts([releases[0], *between, *releases[1:]])))
    return 0


def data_files(releases: list[jars.Release]) -> dict[str, str]:
    """By file name, the text of every data file."""
    newest, *older = releases
    names = json.dumps([release.version for release in releases]) + "\n"
    rows = {release.version: all_facts(release) for release in releases}
    ruling = rows[newest.version]
    texts = {"releases.json": names, f"messages-{newest.version}.jsonl": _lines(ruling.values())}
    for release in older:
        kept = [row for each in rows[release.version].values() for row in beside(ruling.get(identity(each)), each)]
        texts[f"messages-{release.version}.jsonl"] = _lines(kept)
    texts |= internal_files(releases)
    texts["apis.jsonl"] = _lines(api_facts(releases))
    texts["errors.jsonl"] = _lines(error_facts(releases))
    return texts


def internal_files(releases: list[jars.Release]) -> dict[str, str]:
    """By file name, the text of the files for internal topics and Streams.

    They have all definitions of the newest release, and those of other releases that the newest lacks.
    """
    newest, *older = releases
    ruling = internal.record_facts(newest)
    texts = {f"internal-{newest.version}.jsonl": _lines([*internal.streams_facts(newest), *ruling.values()])}
    for release in older:
        kept = [
            row
            for which, each in internal.record_facts(release).items()
            for row in internal.beside(ruling.get(which), each)
        ]
        texts[f"internal-{release.version}.jsonl"] = _lines(kept)
    return texts


def all_facts(release: jars.Release) -> dict[Identity, Json]:
    """Every message of a release that has versions, sorted by API key, then by name."""
    rows = []
    for definition in release.definitions.values():
        api = release.apis.get(definition.get("apiKey", -1))
        row = facts.compact(definition, release.version, unstable=api is not None and api["unstable"])
        if row["versions"] != "none":
            rows.append(row)
    rows.sort(key=lambda row: (row.get("key", sys.maxsize), row["name"]))
    return {identity(row): row for row in rows}


def identity(row: Json) -> Identity:
    """A message's identity across releases: the API key, because an API's name may change, or else the name."""
    kind: str = row["kind"]
    which: int | str = row["key" if "key" in row else "name"]
    return kind, which


def beside(newest: Json | None, older: Json) -> Iterator[Json]:
    """Rows of an older definition that the newest lacks or reads differently, one for each range of versions kept for
    the same reason.
    """
    ours, theirs = facts.parsed(newest) if newest else None, facts.parsed(older)
    reasons = {
        version: reason
        for version in range(theirs.versions.low, theirs.versions.high + 1)
        if (reason := _reason(ours, theirs, version)) is not None
    }
    start = theirs.versions.low
    for version, reason in sorted(reasons.items()):
        if reasons.get(version - 1) != reason:
            start = version
        if reasons.get(version + 1) != reason:
            yield facts.cut(older, Versions(start, version), reason)


def _reason(newest: Message | None, older: Message, version: int) -> str | None:
    if newest is None or version not in newest.versions:
        return "gone"
    if layout(newest, version) != layout(older, version):
        return "layout"
    return "name" if newest.name != older.name else None


def api_facts(releases: list[jars.Release]) -> Iterator[Json]:
    """One row per API: versions by release, and names and unstable versions if they differ from the default."""
    for key in sorted({key for release in releases for key in release.apis}):
        knowing = [release for release in releases if release.apis.get(key, {}).get("versions")]
        newest = knowing[0]
        spoken = {release.version: _spoken(release.apis[key]) for release in knowing}
        names = {release.version: release.apis[key]["name"] for release in knowing}
        (request,) = (
            definition
            for definition in newest.definitions.values()
            if definition["type"] == "request" and definition["apiKey"] == key
        )
        row: Json = {"key": key, "name": names[newest.version], "listeners": request["listeners"]}
        row["versions"] = {version: str(versions) for version, versions in spoken.items()}
        if others := {version: name for version, name in names.items() if name != row["name"]}:
            row["names"] = others
        unstable = {
            release.version: str(spoken[release.version].high) for release in knowing if release.apis[key]["unstable"]
        }
        if unstable:
            row["unstable"] = unstable
        yield row


def served_facts(releases: list[jars.Release]) -> Iterator[Json]:
    """One row per release: the versions of each API's request, and those that are deprecated or unstable there."""
    for release in releases:
        versions, deprecated, unstable = {}, {}, {}
        for key, request in sorted(_requests(release).items()):
            valid = Versions.parse(request["validVersions"])
            if not valid:
                continue
            versions[str(key)] = str(valid)
            if "deprecatedVersions" in request:
                deprecated[str(key)] = request["deprecatedVersions"]
            if request.get("latestVersionUnstable"):
                unstable[str(key)] = str(valid.high)
        yield {"release": release.version, "versions": versions, "deprecated": deprecated, "unstable": unstable}


def _requests(release: jars.Release) -> dict[int, Json]:
    return {one["apiKey"]: one for one in release.definitions.values() if one["type"] == "request"}


def _spoken(api: Json) -> Versions:
    return Versions(api["versions"][0][0], api["versions"][-1][0])


def error_facts(releases: list[jars.Release]) -> Iterator[Json]:
    known: dict[int, Json] = {}
    for release in reversed(releases):
        known |= release.errors
    for code, error in sorted(known.items()):
        yield {
            "code": code,
            "name": error["name"],
            "retriable": error["retriable"],
            "refresh_metadata": error["refresh_metadata"],
            "exception": error["exception"],
        }


def check(releases: list[jars.Release]) -> Iterator[str]:
    """A message for each contradiction between the releases and the tables that are maintained by hand."""
    newest = releases[0]
    for release in releases:
        messages = {key: facts.parsed(row) for key, row in all_facts(release).items()}
        for key, api in release.apis.items():
            if key not in history.APIS:
                yield f"API {key} {api['name']} of {release.version} has no row in decoders/schema/history.py"
                continue
            if bool(api["versions"]) != (history.APIS[key].last is None) and release is newest:
                yield f"decoders/schema/history.py is wrong about the last release of API {key} {api['name']}"
            for version, *headers in api["versions"]:
                if headers != [
                    _header(irregular.request_header_version(key, version), 1, messages["request", key], version),
                    _header(irregular.response_header_version(key, version), 0, messages["response", key], version),
                ]:
                    yield (
                        f"API {key} v{version} of {release.version} has the headers {headers}, "
                        "decoders/schema/irregular.py says otherwise"
                    )


def _header(special: int | None, plain: int, message: Message, version: int) -> int:
    if special is not None:
        return special
    return plain + 1 if version in message.flexible else plain


def _lines(rows: Iterable[Json]) -> str:
    return "".join(map(facts.line, rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
