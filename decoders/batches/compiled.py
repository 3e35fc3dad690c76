"""The loops that setup.py compiles if there is a C compiler; otherwise the same loops in plain Python."""

from __future__ import annotations

from kproxy.decoders.batches.record import Record

try:
    from kproxy.decoders.batches._loop import CommonRecords
    from kproxy.decoders.batches._shown import in_base64, record_forms, text_or_base64
    from kproxy.decoders.batches._text import records_text

    COMPILED = True
except ImportError:
    from kproxy.decoders.batches.loop import CommonRecords
    from kproxy.decoders.batches.shown import in_base64, record_forms, text_or_base64

    COMPILED = False

    def records_text(records: list[Record]) -> bytes | None:  # noqa: ARG001
        """Always None: in plain Python it is faster to make the JSON forms than to write the text directly."""
        return None


__all__ = ["COMPILED", "CommonRecords", "in_base64", "record_forms", "records_text", "text_or_base64"]
