"""Warns if Spark's workers run kproxy without the modules that setup.py compiles.

That happens where kproxy is imported from a zip (`--py-files`, `addArtifacts`): Python imports no extensions from it.
"""

from __future__ import annotations

import warnings
from typing import Final

TEXT: Final = (
    "Spark's workers run kproxy without its compiled parts, so this takes longer: a zip cannot hold them; install the "
    "wheel in the workers' environment"
)


class Uncompiled(UserWarning):
    """The category of this warning."""


def compiled() -> bool:
    """Whether this process has the compiled modules that reading needs."""
    from kproxy.captures.formats.compiled import COMPILED as FORMATS
    from kproxy.decoders.batches.compiled import COMPILED as BATCHES
    from kproxy.decoders.conversation.compiled import COMPILED as CONVERSATION

    return FORMATS and BATCHES and CONVERSATION


def warn() -> None:
    """Warn; Python shows the warning once for each place that calls this."""
    warnings.warn(TEXT, Uncompiled, stacklevel=2)
