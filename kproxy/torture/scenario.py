"""The scenarios of `kproxy torture`: rule files in the folder `scenarios`, each with a description."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from kproxy.faults.files import read
from kproxy.faults.rule import Rule
from kproxy.faults.trouble import FaultsError

FOLDER: Final = Path(__file__).parent / "scenarios"
ROLES: Final = ("produce", "consume", "transact")
_REQUIRED: Final = {"fault", "correct", "seen", "role"}
_KNOWN: Final = {*_REQUIRED, "failing", "prepare"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fault, what a correct client does, and the rules that make the fault.

    `seen` names public threads, as in "librdkafka#4438". `role` (one of ROLES) is what the client's program is to do.
    If `may_fail`, a correct program may end with an error, but may not report success for records that are missing.
    `aborted` asks for a topic with aborted transactions.
    """

    name: str
    fault: str
    correct: str
    seen: str
    role: str
    may_fail: bool
    aborted: bool
    rules: tuple[Rule, ...]
    path: Path


def load(path: Path) -> Scenario:
    """The scenario of a file. Raises FaultsError if its rules are invalid or its description is incomplete."""
    rules = read(path)
    about = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("about")
    if not isinstance(about, dict) or not set(about) >= _REQUIRED or not set(about) <= _KNOWN:
        raise FaultsError(f"{path}: a scenario has about: with {', '.join(sorted(_REQUIRED))}, and rules:")
    if about["role"] not in ROLES:
        raise FaultsError(f"{path}: the role {about['role']!r} is none of {', '.join(ROLES)}")
    if not rules:
        raise FaultsError(f"{path} has no rules")
    words = {name: " ".join(str(about[name]).split()) for name in _REQUIRED}
    return Scenario(
        name=path.stem,
        **words,
        may_fail=about.get("failing") == "allowed",
        aborted=about.get("prepare") == "aborted transactions",
        rules=tuple(rules),
        path=path,
    )


def names() -> list[str]:
    """The names of all scenarios, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def scenarios(wanted: tuple[str, ...] = ()) -> Iterator[Scenario]:
    """The scenarios with these names, or all. Raises FaultsError, KeyError with a name that does not exist."""
    known = names()
    for name in wanted or known:
        if name not in known:
            raise KeyError(name)
        yield load(FOLDER / f"{name}.yaml")
