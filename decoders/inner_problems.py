"""Finds problems inside a frame's fields: in its records, and in bytes fields whose content has a known format."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kproxy.decoders import embedded
from kproxy.decoders.embedded import Scope
from kproxy.decoders.frame_tree import NODES, parts
from kproxy.decoders.jsonform import records_forms
from kproxy.decoders.message import Decoded
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.problems import Problem, limited
from kproxy.decoders.tree import tree


def record_problems(data: Buffer, decoded: Decoded, body: Any, where: str) -> list[Problem]:
    """Problems in the records of a frame.

    `decoded` is the decoded frame `data`, and `body` is what `body_json` returned for it; `where` is "request" or
    "response".
    """
    if decoded.message is None:
        return []
    wrong = [place for place in records_forms(body, decoded.message, decoded.version) if place.form.troubles]
    if not wrong:
        return []
    node = tree(decoded.message, decoded.version, data, decoded.body_start, len(data))
    places = {
        one.path: one.end - len(one.value) for one in node.walk() if one.type == "records" and one.value is not None
    }
    found = [
        Problem(
            where,
            places[place.path] + trouble.offset,
            f"{place.path}.{trouble.path}" if trouble.path else place.path,
            trouble.message,
            trouble.code,
        )
        for place in wrong
        for trouble in place.form.troubles
    ]
    return limited(found, sum(place.form.left_out for place in wrong))


def problems_inside(data: Buffer, decoded: Decoded, scope: Scope, where: str) -> list[Problem]:
    """Problems inside the bytes fields of a frame; empty if decoding has added nothing to `scope.found`."""
    if decoded.message is None or not (scope.found.wrong or scope.found.records):
        return []
    end = len(data)
    root = tree(decoded.message, decoded.version, data, decoded.body_start, end, limit=NODES)
    embedded.attach(root, decoded.message, decoded.version, memoryview(data), replace(scope, parts=parts))
    found = [replace(problem, where=where) for problem in embedded.problems(root)]
    for path, trouble in scope.found.records:
        node = next((node for node in root.walk() if node.type == "records" and path.startswith(f"{node.path}.")), None)
        if node is not None:
            offset = node.end - len(node.value) + trouble.offset
            found.append(Problem(where, offset, path, trouble.message, trouble.code))
    return limited(found, scope.found.left_out)
