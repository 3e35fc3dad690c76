"""The running proxy that a command is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproxy.cli.exits import Exit, Failure

if TYPE_CHECKING:
    from pathlib import Path

    from kproxy.runs.registry import Run


def running(name: str | None) -> Run:
    """The run with this name or process id; the only one for None. Raises Failure (exit 2)."""
    from kproxy.runs.registry import NoRunError, find

    try:
        return find(name)
    except NoRunError as error:
        raise Failure(str(error), Exit.USAGE) from None


def recording_of(run: Run) -> Path:
    """The recording of a run. Raises Failure (exit 2) if it records nothing."""
    if run.recording is None:
        raise Failure(f"process {run.pid} records nothing, so there are no exchanges to show", Exit.USAGE)
    return run.recording
