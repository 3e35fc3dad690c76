from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kproxy.decoders.errorcodes import error_codes
from tests.decoders.support import RELEASES, decoded


def codes(value: Any) -> Iterator[int]:
    """Every error code of a body in order, found by a search of all values."""
    if isinstance(value, list):
        for element in value:
            yield from codes(element)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith("rrorCode") and isinstance(inner, int):
                yield inner
            else:
                yield from codes(inner)


@pytest.mark.parametrize("release", RELEASES)
def test_error_codes_of_every_golden_message(release: str) -> None:
    found = 0
    for one, read in decoded(release):
        if one.kind != "response":
            continue
        assert read.message is not None
        assert read.body is not None
        expected = list(dict.fromkeys(code for code in codes(one.body) if code))
        assert error_codes(read.body, read.message, read.version) == expected, one
        found += len(expected)
    assert found > 1000
