"""Input of a terminal or browser, with tolerance for bytes that are not text and escape sequences out of range.

Textual's input threads create their decoder and parser themselves, and an error in these would end the interface. The
decoder and parser here replace them.
"""

from __future__ import annotations

from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Callable, Iterable
from functools import partial

from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver, web_driver
from textual.message import Message


class Parser(XTermParser):
    """Textual's parser of terminal input; it drops sequences that it cannot read."""

    def feed(self, data: str) -> Iterable[Message]:
        try:
            yield from super().feed(data)
        except (ValueError, ArithmeticError):  # numbers out of range for a key, colour or position
            super().__init__()


def decoder(encoding: str) -> Callable[[], IncrementalDecoder]:
    """A function that creates decoders which put U+FFFD in place of bytes that are not text."""
    return partial(getincrementaldecoder(encoding), errors="replace")


def install() -> None:
    """Make Textual's drivers use this decoder and parser."""
    for module in (linux_driver, web_driver):
        vars(module).update(getincrementaldecoder=decoder, XTermParser=Parser)
