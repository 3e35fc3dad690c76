"""Messages that count one thing say so."""

from __future__ import annotations

import re

import pytest

from kproxy.decoders.frames import frame_tree
from kproxy.decoders.message import decode_request, decode_response
from kproxy.decoders.plurals import are, counted, were
from kproxy.decoders.schema import definitions
from kproxy.decoders.stream import Side
from tests.support.golden import Golden, golden

ONE_OF_MANY = re.compile(r"\b1 (?:\w+ )?(?:bytes|records|fields|elements|problems)\b|\b1 (?:are|were)\b")


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 bytes are were"), (1, "1 byte is was"), (2, "2 bytes are were"), (-1, "-1 bytes are were")],
)
def test_one_is_singular(count: int, said: str) -> None:
    assert f"{counted(count, 'byte')} {are(count)} {were(count)}" == said
    assert counted(1234, "byte", ",") == "1,234 bytes"
    assert [counted(2, noun) for noun in ("batch", "Fetch", "response")] == ["2 batches", "2 Fetches", "2 responses"]


@pytest.mark.parametrize("one", golden("4.4.0")[::7], ids=str)
def test_no_message_counts_one_as_many(one: Golden) -> None:
    known = definitions()
    side = Side.CLIENT if one.kind == "request" else Side.BROKER
    seen = 0
    for frame in (*(one.frame[:end] for end in range(4, min(len(one.frame), 24))), one.frame[:-1], one.frame + b"\0"):
        if side is Side.CLIENT:
            problems = decode_request(frame, known).problems
        else:
            problems = decode_response(frame, one.api_key, one.api_version, known).problems
        tree = frame_tree(frame, side, one.api_key, one.api_version, known)
        said = [problem.message for problem in problems]
        said += [node.problem.message for node in tree.walk() if node.problem is not None]
        seen += len(said)
        assert not [text for text in said if ONE_OF_MANY.search(text)]
    assert seen
