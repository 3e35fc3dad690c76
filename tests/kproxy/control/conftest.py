"""Runs what has sockets in both of the relay's event loops: uvloop's, and asyncio's where that is not installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    both = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return both if item.path.stem == "test_server" else {"asyncio": asyncio.new_event_loop}
