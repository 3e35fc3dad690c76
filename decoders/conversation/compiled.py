"""The functions that setup.py compiles if there is a C compiler, otherwise those in plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproxy.decoders.conversation.loop import wants_no_reply, whole_requests, whole_responses
from kproxy.decoders.conversation.pairing import Pairing

COMPILED = False

if not TYPE_CHECKING:
    try:
        from kproxy.decoders.conversation._loop import wants_no_reply, whole_requests, whole_responses
        from kproxy.decoders.conversation._pairing import Pairing

        COMPILED = True
    except (ImportError, ValueError):  # ValueError: the classes differ from decoders/exchange.pxd
        pass

__all__ = ["COMPILED", "Pairing", "wants_no_reply", "whole_requests", "whole_responses"]
