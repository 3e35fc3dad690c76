"""The API of a response without its request is guessed only if nothing else fits."""

from __future__ import annotations

import pytest

from kproxy.decoders.guessing import guess
from kproxy.decoders.schema import Definitions
from tests.support.golden import golden
from tests.support.scripts import eyes, framed, response


@pytest.fixture(scope="module")
def definitions() -> Definitions:
    return eyes()


def test_a_guess_of_a_golden_response_is_right(definitions: Definitions) -> None:
    responses = [one for one in golden("4.4.0") if one.kind == "response"][::4]
    right = 0
    for one in responses:
        found = guess(one.frame, definitions)
        if found is None:
            continue
        assert found.api_key == one.api_key
        assert one.api_version in found.versions
        right += 1
    assert right * 2 > len(responses)


@pytest.mark.parametrize(
    "frame", [framed(bytes(10)), framed(bytes(4) + b"\xff" * 40), response(12, 4, 1), b"", bytes(3)]
)
def test_no_guess_where_several_fit_or_none(frame: bytes, definitions: Definitions) -> None:
    assert guess(frame, definitions) is None
