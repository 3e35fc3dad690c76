"""What is compiled is made of the sources that are here."""

from __future__ import annotations

from hashlib import sha256
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.variants import variants_of

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    types.with_suffix(".py")
    for folder in ("kproxy/core", "kproxy/captures/*", "kproxy/captures/*/*", "kproxy/decoders/*")
    for types in ROOT.glob(f"{folder}/*.pxd")
)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_it_is_made_of_the_source_that_is_here(source: Path) -> None:
    plain = import_module(".".join(source.relative_to(ROOT).with_suffix("").parts))
    assert plain.__file__ == str(source)
    _, *made = variants_of(plain)
    if not made:
        pytest.skip("there was no C compiler when this was installed")
    assert not str(made[0].__file__).endswith(".py")
    digest = sha256(source.read_bytes() + source.with_suffix(".pxd").read_bytes()).hexdigest()
    assert digest == made[0].SOURCE, f"{source.name} or its .pxd was changed: run make"
