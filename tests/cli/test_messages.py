"""What `kproxy run` tells a user who waits for the first client."""

from __future__ import annotations

import pytest

from kproxy.cli import messages
from kproxy.cli.messages import Messages
from tests.support.relay import eventually


def test_a_hint_comes_if_nobody_connects(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "HINT_SECONDS", 0.01)
    said, texts = Messages(), []
    said.hint("no client has connected yet")

    def told() -> bool:
        texts.append(capsys.readouterr().err)
        return "".join(texts) == "no client has connected yet\n"

    eventually(told, "the hint is printed")


def test_a_client_that_connects_ends_the_wait(capsys: pytest.CaptureFixture[str]) -> None:
    said = Messages()
    said.hint("no client has connected yet")
    said.take({"event": "client", "client": "10.0.0.1:5000"})
    assert said._hint is not None
    said._hint.join(1)  # a cancelled timer ends at once
    assert not said._hint.is_alive()
    assert capsys.readouterr().err == "first connection from 10.0.0.1:5000\n"
