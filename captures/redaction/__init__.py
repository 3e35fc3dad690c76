"""What is taken out of exchanges before they are shared: secrets, payloads, hosts.

Bytes are overwritten in place, so that every frame keeps its length and reads as before: `hosts` maps names and
addresses, `records` knows records fields, `frames` whole frames, `exchanges` puts them together. Every format then is
made of what is left. What cannot be read is overwritten as a whole: nobody can say what it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kproxy.decoders.plurals import counted

SECRETS: Final = "secrets"
PAYLOADS: Final = "payloads"
HOSTS: Final = "hosts"
PRESETS: Final = (SECRETS, PAYLOADS, HOSTS)
"""What can be taken out: passwords, tokens and keys; keys, values and header values of records; names and addresses of
hosts."""

FILL: Final = b"x"
"""What stands in place of each byte."""


@dataclass(slots=True)
class Removed:
    """What was taken out, counted: `places` are those in which one of `hosts` stood, `unread` are bytes.

    `unread` counts the bytes of frames that were withheld because they could not be read.
    """

    secrets: int = 0
    payloads: int = 0
    hosts: int = 0
    places: int = 0
    unread: int = 0

    def __str__(self) -> str:
        text = f"{self.secrets:,} secrets, {self.payloads:,} payloads, {self.hosts:,} hosts ({self.places:,} places)"
        return f"{text}; {counted(self.unread, 'byte', ',')} withheld that could not be read" if self.unread else text
