"""Compares exported exchanges with the reading of the same capture by Kafka's own classes."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

from tests.support.plain import plain

Message = tuple[str, str, int, str]
"""Client, broker, correlation id, and "request" or "response"."""


def expected(path: Path) -> dict[Message, deque[dict[str, Any]]]:
    """The expected frames of a capture by message, in order."""
    frames: dict[Message, deque[dict[str, Any]]] = defaultdict(deque)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for text in lines:
            line = json.loads(text)
            frames[line["client"], line["broker"], line["correlation_id"], line["kind"]].append(line)
    return frames


def differences(lines: list[dict[str, Any]], frames: dict[Message, deque[dict[str, Any]]]) -> list[str]:
    """Differences between exported lines and expected frames, one for a message; consumes `frames`."""
    found = []
    exchanges = [line for line in lines if line["schema"] == "kproxy.exchange/1"]
    for line in sorted(exchanges, key=lambda line: line["exchange"]):
        for kind in ("request", "response"):
            side = line[kind]
            if side is None or (side["body"] is None and line["status"] == "cut"):
                continue
            name: Message = (line["client"], line["broker"], line["correlation_id"], kind)
            waiting = frames.get(name)
            if not waiting:
                found.append(f"exchange {line['exchange']}: {kind} that is not expected")
                continue
            frame = waiting.popleft()
            ours = (line["api_key"], line["api_version"], plain(side["body"]))
            theirs = (frame["api_key"], frame["api_version"], frame["body"])
            if ours != theirs:
                found.append(f"exchange {line['exchange']}: {kind}\n  ours   {ours}\n  theirs {theirs}")
    found += [f"expected {name} is missing" for name, waiting in frames.items() for _ in waiting]
    return found
