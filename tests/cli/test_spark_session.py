"""Warnings of the Spark reading are lines of kproxy's, like all its others."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from kproxy.captures.formats import compiled as formats
from kproxy.captures.spark.session import uncompiled
from kproxy.cli import spark_session
from kproxy.decoders.batches import compiled as batches
from kproxy.decoders.conversation import compiled as conversation


@pytest.mark.parametrize("module", [formats, batches, conversation], ids=lambda module: module.__name__)
def test_every_compiled_module_counts(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (formats, batches, conversation):
        monkeypatch.setattr(each, "COMPILED", True)
    assert uncompiled.compiled()
    monkeypatch.setattr(module, "COMPILED", False)
    assert not uncompiled.compiled()


def test_our_warning_is_a_line_and_others_are_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings(record=True) as others, spark_session._warnings_as_lines():
        warnings.simplefilter("always")
        uncompiled.warn()
        warnings.warn("of another library", UserWarning, stacklevel=1)
    assert [str(one.message) for one in others] == ["of another library"]
    assert capsys.readouterr().err == f"kproxy: warning: {uncompiled.TEXT}\n"
