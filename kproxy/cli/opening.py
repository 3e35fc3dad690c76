"""Opens further captures for the terminal interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kproxy.cli.options.reading import Reading

if TYPE_CHECKING:
    from pathlib import Path

    from kproxy.cli.options.viewing import Viewing
    from kproxy.tui.output.commands import Opener, OtherCapture


PATIENCE_SECONDS = 5.0
"""Longest wait for the first rows of another capture; the screen stays as it is meanwhile."""


def opener(reading: Reading | None = None, viewing: Viewing | None = None, *, warn: Callable[[str], None]) -> Opener:
    """A function that opens captures with these options, and shows the connections to all ports.

    `warn` gets warnings, from any thread.
    """
    return partial(_opened, replace(reading or Reading(), ports=None), viewing, warn)


@contextmanager
def _opened(
    reading: Reading, viewing: Viewing | None, warn: Callable[[str], None], captures: Sequence[Path]
) -> Iterator[OtherCapture]:
    from kproxy.captures.errors import CaptureError
    from kproxy.cli.exits import Failure
    from kproxy.cli.exporting import exporter
    from kproxy.cli.indexed import indexed, refuse_segments
    from kproxy.tui.output.commands import OtherCapture, UnopenedError

    with ExitStack() as open_:
        try:
            for one in captures:
                refuse_segments(one)
            index = open_.enter_context(indexed(captures, reading, patience=PATIENCE_SECONDS, warn=warn))
        except (CaptureError, Failure, OSError) as error:
            raise UnopenedError(str(error)) from None
        yield OtherCapture(index.directory, exporter([one.absolute() for one in captures], reading, viewing))
