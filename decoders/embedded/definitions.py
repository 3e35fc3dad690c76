"""Definitions of structures inside bytes fields: from Kafka's definition files and from definitions.json.

definitions.json defines, in the form of decoders/schema/data, structures that Kafka encodes with handwritten code:
Streams' `AssignmentInfo` and Connect's structures (`ConnectProtocol`, `IncrementalCooperativeConnectProtocol`). A named
topology's name in AssignmentInfo is a list of UTF-16 code units.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from kproxy.decoders.schema.lookup import definitions
from kproxy.decoders.schema.model import Message, Versions
from kproxy.decoders.schema.reading import from_facts


@cache
def _own() -> dict[str, Message]:
    read = (
        from_facts(facts) for facts in json.loads((files("kproxy.decoders.embedded") / "definitions.json").read_bytes())
    )
    return {message.name: message for message in read}


@cache
def versions(name: str) -> Versions:
    """The versions of a structure for which there are definitions."""
    own = _own().get(name)
    if own is not None:
        return own.versions
    known = [version for version in range(100) if definitions().message(name, version) is not None]
    return Versions(known[0], known[-1])


def definition(name: str, version: int) -> Message | None:
    own = _own().get(name)
    if own is not None:
        return own if version in own.versions else None
    return definitions().message(name, version)
