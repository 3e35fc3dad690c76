"""The interface of tests to the proxy: the value of the fixture `kproxy`."""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.library.live import Live
from kproxy.library.rules import Fault

BAD = ("warn", "error")
"""Severities of findings that `assert_clean` does not allow."""


class Kproxy(Live):
    """A proxy between a test's clients and the cluster. It shows only this test's exchanges, findings and rules."""

    def assert_clean(self, *but: str) -> None:
        """Raises AssertionError if there are findings of severity warn or error, except findings of the rules `but`."""
        found = [one for one in self.findings() if one["severity"] in BAD and one["rule"] not in but]
        if found:
            from kproxy.captures.findings.text import findings_text

            raise AssertionError("\n".join(["the traffic is not clean:", *findings_text(found)]))


def silent_rules(faults: Sequence[Fault]) -> Sequence[Fault]:
    """Those of a test's rules that should have fired and never did."""
    return [fault for fault in faults if fault.must_fire and not fault.hits]
