"""Decodes bytes that a user pastes or gives in a file, without the connection that they came from."""

from __future__ import annotations

from kproxy.decoders.byhand.opening import Asked, Kind, Opened, Opener
from kproxy.decoders.byhand.readings import Reading

__all__ = ["Asked", "Kind", "Opened", "Opener", "Reading"]
