"""Looks up names in any spelling: `NotLeaderForPartition` and `NOT_LEADER_FOR_PARTITION` are the same."""

from __future__ import annotations


def folded(name: str) -> str:
    """The form in which names are compared: lower case, without underscores and hyphens."""
    return name.replace("_", "").replace("-", "").lower()


def lookup(table: dict[str, int], name: str, endings: tuple[str, ...]) -> int | None:
    """The number for a name in a table of folded names; None if there is none.

    The whole name is tried first, then the name without each of the `endings`.
    """
    key = folded(name)
    if key in table:
        return table[key]
    for ending in endings:
        if key.endswith(ending) and (found := table.get(key.removesuffix(ending))) is not None:
            return found
    return None
