"""Opens further captures for the terminal interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from kproxy.captures.spool import Spooling
    from kproxy.cli.options.viewing import Viewing
    from kproxy.tui.output.commands import Opener, OtherCapture


PATIENCE_SECONDS = 5.0
"""Longest wait for the first rows of another capture; the screen stays as it is meanwhile."""


def opener(
    *,
    release: str | None = None,
    user_definitions: Sequence[str] = (),
    keylog: Path | None = None,
    spooling: Spooling | None = None,
    viewing: Viewing | None = None,
    warn: Callable[[str], None],
) -> Opener:
    """A function that opens captures with these options; `warn` gets warnings, from any thread."""
    return partial(
        _opened,
        release=release,
        user_definitions=user_definitions,
        keylog=keylog,
        spooling=spooling,
        viewing=viewing,
        warn=warn,
    )


@contextmanager
def _opened(
    captures: Sequence[Path],
    *,
    release: str | None,
    user_definitions: Sequence[str],
    keylog: Path | None,
    spooling: Spooling | None,
    viewing: Viewing | None,
    warn: Callable[[str], None],
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
            index = open_.enter_context(
                indexed(
                    captures,
                    release=release,
                    user_definitions=user_definitions,
                    keylog=keylog,
                    spooling=spooling,
                    patience=PATIENCE_SECONDS,
                    warn=warn,
                )
            )
        except (CaptureError, Failure, OSError) as error:
            raise UnopenedError(str(error)) from None
        yield OtherCapture(
            index.directory,
            exporter(
                [one.absolute() for one in captures],
                release=release,
                user_definitions=user_definitions,
                keylog=keylog,
                spooling=spooling,
                viewing=viewing,
            ),
        )
