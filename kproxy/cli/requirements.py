"""Parses the requirement strings of a distribution."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

OWN = "kafka-kproxy"
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)[^;]*(?:;(.*))?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w.-]+)["']""")
_PLATFORM = re.compile(r"""sys_platform\s*(==|!=)\s*["'](\w+)["']""")


def needed(requirements: Iterable[str]) -> list[tuple[str, str | None]]:
    """(package, the extra that requires it or None) for the requirements that apply to this platform."""
    found = []
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match is None:
            continue
        marker = match.group(2) or ""
        platform = _PLATFORM.search(marker)
        if platform is not None and (platform.group(2) == sys.platform) != (platform.group(1) == "=="):
            continue
        extra = _EXTRA.search(marker)
        if match.group(1) == OWN:
            continue  # an extra that is made of others
        found.append((match.group(1), extra.group(1) if extra else None))
    return found
