"""What a terminal or browser sends, read without trust: bytes that are not text, escape sequences out of range.

Textual's input threads make their decoder and parser themselves, and what these raise would end the interface. The ones
here take their place.
"""

from __future__ import annotations

from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Callable, Iterable
from functools import partial

from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver, web_driver
from textual.message import Message


class Parser(XTermParser):
    """Textual's parser of what terminals send; a sequence that it cannot read gives nothing."""

    def feed(self, data: str) -> Iterable[Message]:
        try:
            yield from super().feed(data)
        except (ValueError, ArithmeticError):  # numbers that no key, colour or place has
            super().__init__()


def decoder(encoding: str) -> Callable[[], IncrementalDecoder]:
    """Makes decoders that put U+FFFD in place of bytes that are not text."""
    return partial(getincrementaldecoder(encoding), errors="replace")


def install() -> None:
    """Have Textual's drivers use these."""
    for module in (linux_driver, web_driver):
        vars(module).update(getincrementaldecoder=decoder, XTermParser=Parser)
