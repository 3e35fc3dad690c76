"""The rules of a running proxy, for an agent that may act on its traffic (`kproxy mcp --allow-faults`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kproxy.runs.registry import ask_rules


class Rules:
    """Lists, adds and removes rules of the proxy whose run folder is `run_dir`.

    Each method raises ValueError with the proxy's message if the proxy refuses, OSError if it does not answer.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir

    def faults(self) -> dict[str, Any]:
        """The rules that act on the proxy's traffic: name, text, how often each matched and acted, what it holds."""
        return {"rules": ask_rules(self._run_dir, "list")["rules"]}

    def add_fault(self, rule: str) -> dict[str, Any]:
        """Add a rule, such as `lost: api == Produce and topic == orders => drop response, nth 2`.

        It acts on real traffic until it is removed; if the proxy had no rules before, it acts only on
        connections that begin later.
        """
        (added,) = ask_rules(self._run_dir, "add", rule=rule)["rules"]
        return {"added": added}

    def remove_fault(self, name: str) -> dict[str, Any]:
        """Remove a rule by its name; the frames that it holds are sent."""
        ask_rules(self._run_dir, "remove", name=name)
        return {"removed": name}
