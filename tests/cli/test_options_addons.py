"""What `kproxy run` refuses of metrics and traces before it starts."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options.addons import TRACING, Addons

TRACED = Addons(otel_endpoint="http://127.0.0.1:4318")


@pytest.mark.parametrize("missing", TRACING)
def test_tracing_without_its_extra_is_refused(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another package has brought a part of OpenTelemetry."""
    find = importlib.util.find_spec

    def without(name: str, *rest: Any) -> Any:
        if name == missing:
            raise ModuleNotFoundError(name)
        return find(name, *rest)

    TRACED.check(record=True)
    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(Failure, match=r"kafka-kproxy\[otel\]") as failed:
        TRACED.check(record=True)
    assert failed.value.exit_code == Exit.USAGE
