"""Decode bytes that a user gives by hand, without their connection."""

from __future__ import annotations

from kproxy.decoders.byhand.opening import Asked, Kind, Opened, Opener
from kproxy.decoders.byhand.readings import Reading

__all__ = ["Asked", "Kind", "Opened", "Opener", "Reading"]
