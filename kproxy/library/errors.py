"""The exceptions of the library, beside `kproxy.CaptureError` (captures/errors.py)."""

from __future__ import annotations


class FilterError(ValueError):
    """A text is not a display filter (docs/filters.md); the message has a caret below the mistake."""


class EncodeError(ValueError):
    """Values do not fit the message that is encoded; the message names the field."""
