"""`kproxy merge` and `kproxy split`: copy packets of captures unchanged into other files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.options.reading import captured
from kproxy.cli.options.types import DURATION, SIZE
from kproxy.cli.terminal import forced, forcing, output

if TYPE_CHECKING:
    from kproxy.captures.repacking import Choose, Packets


@click.command()
@captured
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(path_type=Path, allow_dash=True),
    required=True,
    metavar="OUT",
    help="Write this pcapng file (- for standard output).",
)
@forcing
def merge(captures: tuple[Path, ...], target: Path) -> None:
    """Merge captures into one, packet by packet in the order of their times.

    What the packets carry stays as it is, whatever their link layers; the file is pcapng.

    \b
    kproxy merge client.pcap broker.pcap -o both.pcapng
    kproxy merge *.pcapng -o - | kproxy export - | jq .api
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.captures.opening import open_source
    from kproxy.captures.repacking import Packets
    from kproxy.captures.repacking import merge as write

    sources = [open_source(path) for path in captures]
    try:
        readings = [Packets(source) for source in sources]
        with output(target, [*captures, *(part.path for source in sources for part in source.parts)]) as out:
            write(readings, out)
        _warn_of_times(readings)
        for reading in readings:
            if reading.error is not None:
                raise reading.error
    finally:
        for source in sources:
            source.close()


@click.command()
@captured
@click.option("--size", type=SIZE, metavar="SIZE", help="Files of at most this many bytes.")
@click.option("--time", "span", type=DURATION, metavar="DURATION", help="Files of this much capture time (1m, 10s).")
@click.option(
    "--connection", "connections", is_flag=True, help="Write a file for each client and broker address (host and port)."
)
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="Write the files into this folder.",
)
@forcing
def split(captures: tuple[Path, ...], size: int | None, span: int | None, connections: bool, target: Path) -> None:
    """Split captures into bounded files, each of which can be read alone; packets stay as they are.

    With --connection, packets other than TCP go to a file of their own. The names of the files are printed.

    \b
    kproxy split large.pcap --size 256M -o parts
    kproxy split day.pcapng --time 1h -o hours
    kproxy split capture.pcap --connection -o connections
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.captures.opening import open_source
    from kproxy.captures.outputs import OutputExists
    from kproxy.captures.repacking import Packets
    from kproxy.captures.repacking import split as write

    choose = _choice(captures[0], size, span, connections=connections)
    source = open_source(list(captures))
    try:
        reading = Packets(source, flows=connections)
        try:
            files = write(reading, target, choose, overwrite=forced())
        except OutputExists as error:
            raise Failure(f"{error.filename}: {error.strerror}", Exit.USAGE) from None
        except (NotADirectoryError, FileExistsError) as error:
            raise Failure(f"{target}: {error.strerror}", Exit.USAGE) from None
        _show(target, files)
        _warn_of_times([reading])
        if reading.error is not None:
            raise reading.error
    finally:
        source.close()


def _choice(first: Path, size: int | None, span: int | None, *, connections: bool) -> Choose:
    from kproxy.captures.names import stem_of
    from kproxy.captures.repacking import by_connection, by_size, by_time

    if (size is not None) + (span is not None) + connections != 1:
        raise Failure("give one of --size, --time and --connection", Exit.USAGE)
    stem = "stdin" if str(first) == "-" else stem_of(first.name)
    if size is not None:
        return by_size(stem, size)
    return by_connection(stem) if span is None else by_time(stem, span)


def _warn_of_times(readings: Sequence[Packets]) -> None:
    count = sum(reading.untimed for reading in readings)
    if count:
        what = "packet has a time" if count == 1 else "packets have times"
        settings.warn(f"{count:,} {what} out of range (1970 to 2262); written with the time of the packet before")


def _show(target: Path, files: dict[str, int]) -> None:
    if settings.current().json:
        import json

        found: dict[str, Any] = {str(target / name): packets for name, packets in files.items()}
        click.echo(json.dumps(found))
        return
    for name in files:
        click.echo(target / name)
