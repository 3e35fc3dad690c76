"""Makes copies of screen content in several forms. No copy holds secrets that the screen withholds."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kproxy.decoders.view import View
from kproxy.tui.detail.opened import Opened
from kproxy.tui.detail.records import RecordLine

if TYPE_CHECKING:
    from kproxy.captures.index.reader import IndexReader
    from kproxy.decoders.schema import Definitions

BYTES_A_ROW = 16


class Copy(NamedTuple):
    """Something that can be copied; `make` returns its text. The key `y` copies the first Copy that a pane offers."""

    name: str
    said: str
    make: Callable[[], str]


def text_of(data: bytes) -> str:
    """Bytes as text if they are UTF-8, else as hexadecimal digits."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.hex()


def byte_copies(what: str, data: bytes) -> Iterator[Copy]:
    """Copies of bytes as hex, dump, base64 and C array; `what` names the bytes in the menu."""
    yield Copy(f"{what} hex", "digits without spaces, as kproxy decode takes them", data.hex)
    yield Copy(f"{what} dump", "offsets, digits and characters", lambda: dump(data))
    yield Copy(f"{what} base64", "", lambda: base64.b64encode(data).decode())
    yield Copy(f"{what} C array", "", lambda: c_array(data))


def dump(data: bytes) -> str:
    """A hex dump: rows of offset, 16 bytes, and their ASCII characters."""
    return "\n".join(
        f"{at:08x}  {data[at : at + BYTES_A_ROW].hex(' '):<47}  "
        + "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data[at : at + BYTES_A_ROW])
        for at in range(0, len(data), BYTES_A_ROW)
    )


def c_array(data: bytes) -> str:
    rows = (data[at : at + BYTES_A_ROW] for at in range(0, len(data), BYTES_A_ROW))
    inside = "".join("    " + " ".join(f"0x{byte:02x}," for byte in row) + "\n" for row in rows)
    return f"unsigned char bytes[{len(data)}] = {{\n{inside}}};"


def frame_copies(name: str, opened: Opened | None) -> Iterator[Copy]:
    """Copies of a frame's bytes; none if some of them are withheld."""
    if opened is not None and opened.data and not opened.secret:
        yield from byte_copies(name, opened.data)


def record_copies(line: RecordLine, broker: str) -> Iterator[Copy]:
    """Copies of value and key, of the record as JSON, and of a kcat command that fetches it again from `broker`."""
    offset, _, key, value, _ = line.record
    for name, data in (("value", value), ("key", key)):
        if data is not None:
            yield Copy(name, "text, or hex digits if it is not text", partial(text_of, bytes(data)))
    yield Copy("record JSON", "topic, partition, offset, time, key, value, headers", partial(record_json, line))
    if line.place.topic:
        place = f"-t {shlex.quote(line.place.topic)} -p {line.place.partition} -o {offset} -c 1"
        yield Copy("kcat line", "fetches the record again", lambda: f"kcat -b {broker} -C {place}")


def record_json(line: RecordLine) -> str:
    """A record as a JSON object with the members that it has in `kproxy export --format records`."""
    from kproxy.captures.export.encoding import encode
    from kproxy.decoders.batches.compiled import record_forms

    (form,), _ = record_forms([line.record])
    return encode({"topic": line.place.topic, "partition": line.place.partition, **form}).decode()


def json_copy(index: IndexReader, definitions: Definitions, number: int, *, show_secrets: bool) -> Copy:
    """An exchange as the JSON object that `kproxy export` prints."""

    def make() -> str:
        from kproxy.captures.export.encoding import encode

        return encode(exchange_form(index, definitions, number, show_secrets=show_secrets)).decode()

    return Copy("exchange JSON", "as kproxy export prints it", make)


def exchange_form(index: IndexReader, definitions: Definitions, number: int, *, show_secrets: bool) -> dict[str, Any]:
    """The exchange of an index row in the form of the exchange JSON. Raises CaptureError."""
    from kproxy.captures.index.exchanges import Exchanges
    from kproxy.captures.opening import open_source
    from kproxy.decoders.exchange_json import exchange_json

    view = View(show_secrets=show_secrets, knowledge=index.knowledge)
    with (
        closing(Exchanges(index, definitions)) as exchanges,
        closing(open_source(index.meta["sources"], ordered=True)) as source,
    ):
        exchange = exchanges.row(number + 1, index.row(number)).exchange
        return exchange_json(exchange, source, definitions, view=view)
