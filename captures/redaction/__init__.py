"""Redacts exchanges before they are shared: secrets, payloads, hosts.

Bytes are overwritten in place, so every frame keeps its length and layout: `hosts` maps names and addresses, `records`
handles records fields, `frames` whole frames, and `exchanges` combines these. Every output format is then made of the
redacted bytes. Unreadable bytes are overwritten completely, because their content is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kproxy.decoders.plurals import counted

SECRETS: Final = "secrets"
PAYLOADS: Final = "payloads"
HOSTS: Final = "hosts"
PRESETS: Final = (SECRETS, PAYLOADS, HOSTS)
"""The presets: passwords, tokens and keys; keys, values and header values of records; names and addresses of hosts."""

FILL: Final = b"x"
"""The byte that replaces each redacted byte."""


@dataclass(slots=True)
class Removed:
    """Counts of redacted values: `secrets`, `payloads`, distinct `hosts`, and `places` where a host was replaced.

    `unread` counts bytes that were withheld because they could not be read.
    """

    secrets: int = 0
    payloads: int = 0
    hosts: int = 0
    places: int = 0
    unread: int = 0

    def __str__(self) -> str:
        text = f"{self.secrets:,} secrets, {self.payloads:,} payloads, {self.hosts:,} hosts ({self.places:,} places)"
        return f"{text}; {counted(self.unread, 'byte', ',')} withheld that could not be read" if self.unread else text
