"""`kproxy decode`: messages given by hand as hex, a file or standard input."""

from __future__ import annotations

import re
import shutil
import string
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli import settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.names import NAME, VERSION
from kproxy.cli.options.reading import defining, releasing, revealing
from kproxy.cli.options.types import SIZE
from kproxy.cli.options.viewing import Viewing, viewing
from kproxy.decoders.plurals import counted

if TYPE_CHECKING:
    from kproxy.captures.export.nodes import Style
    from kproxy.decoders.byhand import Asked, Opened, Reading
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.schema.naming import Named

FORMATS = ("tree", "json", "hex")
NO_TEXT = re.compile(rb"[^\t\r\n -~]")
NOT_IN_DUMPS = str.maketrans("", "", string.hexdigits + " \t\r\n")
MOST_TEXT = 1 << 20
"""Maximum number of characters of a text that may be a binary message: longer messages hold other bytes too."""
READINGS = 10
"""Maximum number of further readings that are listed without --all."""


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="HEX|@FILE|-")
@click.option("--api", type=NAME, metavar="NAME", help="API by name or key, or a message by its name.")
@click.option("--version", type=VERSION, metavar="N", help="Version of the API or message.")
@click.option("--request", "side", flag_value="request", default=None, help="The bytes are requests.")
@click.option("--response", "side", flag_value="response", help="The bytes are responses.")
@click.option("--body", "body", is_flag=True, help="The bytes are a body alone, without length and header.")
@click.option("--records", "records", is_flag=True, help="The bytes are record batches.")
@click.option("--base64", "base64", is_flag=True, help="The text is base64 instead of hex.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="tree", show_default=True, help="Output format.")
@click.option("--all", "everything", is_flag=True, help="List every reading that fits.")
@click.option("--depth", type=click.IntRange(min=0), metavar="N", help="Show N levels of fields below the top.")
@click.option(
    "--batch-limit",
    type=SIZE,
    default="64M",
    show_default=True,
    metavar="SIZE",
    help="Do not decode record batches that decompress to more than this.",
)
@releasing
@defining
@revealing
@click.pass_context
@viewing
def command(
    ctx: click.Context,
    words: tuple[str, ...],
    api: Named | None,
    version: int | None,
    side: str | None,
    body: bool,
    records: bool,
    base64: bool,
    form: str,
    everything: bool,
    depth: int | None,
    batch_limit: int,
    release: str | None,
    user_definitions: tuple[str, ...],
    show_secrets: bool,
    viewing: Viewing,
) -> None:
    """Decode messages by hand: every field with its bytes.

    HEX is plain hex, hex with 0x or \\x, a C array, or the output of xxd, hexdump, od, tcpdump -X or tshark -x. @FILE
    and - (standard input) may hold such text, or the bytes themselves. There may be several frames.

    A request's header holds its API and version. A response needs --api and --version, unless its request comes before
    it; otherwise every layout is tried, the likeliest reading is shown, and the others that fit are listed. The exit
    code is 3 if bytes do not fit.

    \b
    kproxy decode 00000014 0012 0003 00000001 0004 74657374 00 02 61 02 31 00
    kproxy decode @response.bin --api Fetch --version 13 --response
    xxd frame.bin | kproxy decode - --format hex
    tcpdump -X -r capture.pcap | kproxy decode - --json | jq .body
    kproxy decode @batch.bin --records --view '*=json'
    kproxy decode --api ConsumerProtocolSubscription 000000000001000474657374ffffffff
    kproxy decode @thing.bin --api VendorThing --response --definitions vendor/
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.captures.definitions import definitions
    from kproxy.decoders.byhand import Opener
    from kproxy.decoders.view import View

    known = definitions(release, user_definitions)
    asked = _asked(api, version, side, known, body=body, records=records)
    view = View(show_secrets=show_secrets, batch_limit=batch_limit, payloads=viewing.payloads())
    opener = Opener(known, asked, view)
    as_json = form == "json" or settings.current().json
    bad = False
    for piece in _pieces(words, base64=base64):
        for opened in opener.open(piece):
            bad = bad or bool(opened.problems)
            if as_json:
                lines = _json(opened, known, show_secrets=show_secrets)
            else:
                lines = _text(
                    opened, known, _style(opened, depth, show_secrets=show_secrets), form, everything=everything
                )
            click.echo("\n".join(lines))
    if bad:
        ctx.exit(Exit.INPUT)


# --- what is read ----------------------------------------------------------------------------------------------------


def _asked(
    api: Named | None, version: int | None, side: str | None, known: Definitions, *, body: bool, records: bool
) -> Asked:
    """The message that the options describe. Raises Failure if they contradict each other or name an absent version."""
    from kproxy.decoders.byhand import Asked
    from kproxy.decoders.schema.naming import by_version

    if records:
        if api is not None or version is not None or side is not None or body:
            raise Failure("--records excludes --api, --version, --request, --response and --body", Exit.USAGE)
        return Asked(records=True)
    if api is not None and api.kind is not None:
        side = side or api.kind
    if api is not None and version is not None:
        there = {one for messages in api.messages(known, side) for one in by_version(messages, known)}
        if version not in there:
            name = api.message or known.apis[api.api_key or 0].name
            raise Failure(f"--version {version}: {name} has versions {min(there)} to {max(there)}", Exit.USAGE)
    return Asked.of(api, version, side, known, body=body)


def _pieces(words: tuple[str, ...], *, base64: bool) -> list[bytes]:
    """The messages in the arguments, as bytes. Raises Failure if they cannot be read."""
    from kproxy.captures.dumps import DumpError, bytes_of, of_base64
    from kproxy.captures.formats.magic import is_capture

    named = words[0] == "-" or words[0].startswith("@")
    if named and len(words) > 1:
        raise Failure("@FILE or - must be the only argument", Exit.USAGE)
    where = words[0].removeprefix("@") if named else "HEX"
    content = _read(words[0]) if named else " ".join(words)
    try:
        if isinstance(content, bytes):
            text = _as_text(content)
            if text is None:
                if is_capture(content):
                    raise Failure(
                        f"{where}: this is a capture: read it with kproxy export; kproxy decode reads messages",
                        Exit.INPUT,
                    )
                return [content]
            try:
                return [of_base64(text)] if base64 else bytes_of(text)
            except DumpError:
                if base64 or len(text) > MOST_TEXT or _looks_like_a_dump(text):
                    raise
                return [content]
        return [of_base64(content)] if base64 else bytes_of(content)
    except DumpError as error:
        raise Failure(f"{where}: {error}", Exit.INPUT if named else Exit.USAGE) from None


def _read(word: str) -> bytes:
    if word == "-":
        content = sys.stdin.buffer.read()
    else:
        path = Path(word[1:])
        try:
            content = path.read_bytes()
        except PermissionError:
            raise
        except OSError as error:
            raise Failure(f"{path}: {error.strerror}") from None
    if not content:
        raise Failure(f"{word.removeprefix('@')}: empty")
    return content


def _as_text(content: bytes) -> str | None:
    """A file's content as text; None if it has bytes that are not text."""
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError:
        return None
    return None if NO_TEXT.search(content) else text


def _looks_like_a_dump(text: str) -> bool:
    """Whether text is more likely a faulty hex dump than a binary message all of whose bytes are text."""
    return len(text) - len(text.translate(NOT_IN_DUMPS)) > len(text) * 3 // 4


# --- what is shown ---------------------------------------------------------------------------------------------------


def _style(opened: Opened, depth: int | None, *, show_secrets: bool) -> Style:
    from kproxy.captures.export.nodes import Style

    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return Style.of(
        opened,
        show_secrets=show_secrets,
        width=shutil.get_terminal_size().columns,
        ascii_only=encoding != "utf8",
        cut=sys.stdout.isatty(),
        depth=depth,
    )


def _json(opened: Opened, known: Definitions, *, show_secrets: bool) -> Iterator[str]:
    from kproxy.decoders.escaping import json_text

    api = None if opened.api_key is None else known.api(opened.api_key)
    name = None if api is None else api.name
    yield json_text(opened.to_json(name, show_secrets=show_secrets))


def _text(opened: Opened, known: Definitions, style: Style, form: str, *, everything: bool) -> Iterator[str]:
    from kproxy.captures.export.nodes import hex_lines, mentions, tree_lines

    mark = "# " if form == "hex" else ""
    yield mark + _headline(opened, known, style)
    if opened.guess:
        yield f"{mark}guessed: {opened.guess}"
        yield from (mark + line for line in _readings(opened, None if everything else READINGS))
    if form == "hex":
        yield from hex_lines(opened.root, opened.data, style)
    else:
        yield ""
        yield from tree_lines(opened.root, opened.data, style)
    for problem in opened.problems:
        if not mentions(opened.root, problem.message):
            path = f" ({style.text(problem.path)})" if problem.path else ""
            yield f"{mark}{style.cross} byte {problem.offset}: {style.text(problem.message)}{path}"
    yield ""


def _headline(opened: Opened, known: Definitions, style: Style) -> str:
    """One line that says what was decoded."""
    api = None if opened.api_key is None else known.api(opened.api_key)
    if api is not None:
        what = f"{api.name} {opened.kind}" if opened.kind != "message" else f"{opened.message and opened.message.name}"
    else:
        what = opened.message.name if opened.message is not None else f"{opened.kind}"
    words = [what if opened.version is None else f"{what} v{opened.version}"]
    header = opened.header
    if header.get("correlationId") is not None:
        words.append(f"correlation id {header['correlationId']}")
    if header.get("clientId") is not None:
        words.append(f'client id "{style.text(header["clientId"])}"')
    words.append(f"{counted(len(opened.given), 'byte')}" + (f" from byte {opened.start}" if opened.start else ""))
    if opened.definitions is not None:
        words.append(f"with the definitions of {opened.definitions}")
    return ", ".join(words)


def _readings(opened: Opened, most: int | None) -> Iterator[str]:
    """Lines that name the other readings that fit, one line for each message with its versions."""
    from kproxy.decoders.schema.described import ranges

    groups: dict[str, list[Reading]] = {}
    for reading in opened.others:
        groups.setdefault(reading.message.name, []).append(reading)
    for count, (name, readings) in enumerate(groups.items()):
        if most is not None and count == most:
            yield f"  and {len(groups) - most} more messages (--all)"
            return
        yield f"  {name} v{ranges(sorted(reading.version for reading in readings))}"
