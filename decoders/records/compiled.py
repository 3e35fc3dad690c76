"""The loops that setup.py compiles where there is a C compiler; elsewhere the same in plain Python."""

from __future__ import annotations

try:
    from decoders.records._loop import read_common
    from decoders.records._shown import in_base64, record_forms, text_or_base64

    COMPILED = True
except ImportError:
    from decoders.records.loop import read_common
    from decoders.records.shown import in_base64, record_forms, text_or_base64

    COMPILED = False

__all__ = ["COMPILED", "in_base64", "read_common", "record_forms", "text_or_base64"]
