"""`kproxy send`: requests to a broker, from JSON or from a recording."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli import progress, readings, settings
from kproxy.cli.exits import Exit, Failure
from kproxy.cli.names import NAME, VERSION
from kproxy.cli.options.reading import Reading, reading_options, revealing
from kproxy.cli.options.sasl import authenticating
from kproxy.cli.options.selecting import Criteria, Selection, selecting
from kproxy.cli.options.tls import reaching_by_tls
from kproxy.cli.options.types import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kproxy.captures.reader import Reader
    from kproxy.decoders.schema import Definitions
    from kproxy.decoders.schema.naming import Named
    from kproxy.runs.settings import SaslSettings, TlsSettings
    from kproxy.sending.broker import Access
    from kproxy.sending.recorded import Recorded
    from kproxy.sending.sender import Sender

AS_FAST_AS_POSSIBLE = "max"


def read_speed(_ctx: click.Context, _param: click.Parameter, value: str) -> float | None:
    """Parses --speed: a factor, None for "max"."""
    if value == AS_FAST_AS_POSSIBLE:
        return None
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise click.BadParameter(f"{value!r}: a number above 0, or max")
    return number


@click.command()
@click.argument("address", type=ADDRESS, metavar="HOST:PORT")
@click.argument("api", type=NAME, required=False, metavar="[API]")
@click.argument("body", required=False, metavar="[JSON|@FILE|-]")
@click.option("--api-version", type=VERSION, metavar="N", help="Version of the API (default: the highest of both).")
@click.option("--client-id", default="kproxy-send", show_default=True, metavar="ID", help="Client id of the request.")
@click.option(
    "--from",
    "captures",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="CAPTURE",
    help="Send the requests of this capture (repeatable) in place of API and JSON.",
)
@click.option("--exchange", "number", type=click.IntRange(min=1), metavar="N", help="With --from: only exchange N.")
@click.option(
    "--speed",
    default=AS_FAST_AS_POSSIBLE,
    show_default=True,
    callback=read_speed,
    metavar="N|max",
    help="With --from: N times as fast as recorded, or as fast as answers come.",
)
@click.option(
    "--expect",
    is_flag=True,
    help="With --from: compare answers with the recorded ones; exit 1 if any differs.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for a connection and for each answer.",
)
@click.option("--yes", is_flag=True, help="Send requests that change something without asking.")
@reaching_by_tls
@authenticating
@reading_options
@revealing
@selecting
def command(
    address: tuple[str, int],
    api: Named | None,
    body: str | None,
    api_version: int | None,
    client_id: str,
    captures: tuple[Path, ...],
    number: int | None,
    speed: float | None,
    expect: bool,
    timeout: float,
    yes: bool,
    tls: TlsSettings,
    sasl: SaslSettings,
    reading: Reading,
    show_secrets: bool,
    criteria: Criteria,
) -> None:
    """Send requests to a broker and print each exchange as JSON.

    One request is made from JSON in the form of the exchange JSON; absent fields have their defaults, and records may
    be written as {"records": [{"key": "k", "value": "v"}]}. With --from, the requests of a capture are sent, each to
    the broker with the recorded node id, in the recorded order. Ids that the cluster gives out (of producers, members,
    topics, sessions) replace the recorded ones.

    Requests that change something need --yes, or are confirmed at the terminal. Authentications are not sent again:
    kproxy uses its own credentials (--sasl).

    \b
    kproxy send kafka:9092 Metadata '{"topics": null}'
    kproxy send kafka:9092 ListOffsets @body.json --api-version 7
    kproxy send kafka:9092 --from capture.pcap --exchange 42
    kproxy send kafka:9092 --from capture.pcap -Y 'group == billing' --speed 2 --yes
    kproxy send kafka:9092 --from failure.pcap --expect --yes | jq 'select(.differs)'
    """  # noqa: D301 (\b keeps click from joining the lines)
    from kproxy.decoders.view import View
    from kproxy.sending.broker import SendError
    from kproxy.sending.sender import Sender

    selection = criteria.selection(number)
    if bool(captures) == (api is not None):
        raise Failure("give an API (and the JSON of its body), or --from CAPTURE", Exit.USAGE)
    access = _access(tls, sasl, timeout)
    view = View(show_secrets=show_secrets)
    try:
        if api is not None:
            sender = Sender(*address, access, reading.definitions(), view)
            asyncio.run(_one(sender, api, _json(body), api_version, client_id, yes=yes))
            return
        reader = reading.reader(captures)
        with closing(reader):
            sender = Sender(*address, access, reader.definitions, view)
            _replay(reader, selection, sender, speed, expect=expect, yes=yes)
    except SendError as error:
        raise Failure(str(error), Exit.CONNECT) from None


def _access(tls: TlsSettings, sasl: SaslSettings, timeout: float) -> Access:
    from kproxy.relay import credentials
    from kproxy.sending.broker import Access
    from kproxy.tls.contexts import broker_side
    from kproxy.tls.errors import TlsError

    try:
        if sasl.mechanism:
            credentials.load(sasl)
        return Access(broker_side(tls), sasl, timeout)
    except (TlsError, credentials.CredentialsError) as error:
        raise Failure(str(error), Exit.USAGE) from None


# --- one request from JSON -------------------------------------------------------------------------------------------


def _json(text: str | None) -> Any:
    """The JSON value of the argument, of the file after "@", or of standard input for "-"."""
    if text is None:
        return {}
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        return json.loads(text)
    except OSError as error:
        raise Failure(f"cannot read the body: {text[1:]}: {error.strerror}", Exit.INPUT) from None
    except UnicodeDecodeError as error:
        raise Failure(f"cannot read the body: {error}", Exit.INPUT) from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise Failure(f"the body is not valid JSON: {error}", Exit.USAGE) from None


async def _one(sender: Sender, api: Named, body: Any, version: int | None, client_id: str, *, yes: bool) -> None:
    from kproxy.decoders.escaping import json_text
    from kproxy.decoders.from_json import JsonError
    from kproxy.decoders.writer import WriteError
    from kproxy.sending.sender import Request, chosen_version, from_json

    key = api.api_key
    if key is None:
        raise Failure(f"{api.message} is not an API", Exit.USAGE)
    _confirm({key}, sender.definitions, f"{sender.host}:{sender.port}", yes=yes)
    if version is None:
        version = await chosen_version(sender, key)
    try:
        request = Request(key, version, from_json(sender.definitions, key, version, body), client_id)
        line = await sender.send(request)
    except (JsonError, WriteError) as error:
        name = sender.definitions.shown_api_name(key)
        raise Failure(f"{name} v{version}: {error} (kproxy schema show {name} lists its fields)", Exit.USAGE) from None
    finally:
        await sender.close()
    click.echo(json_text(line, indent=2 if sys.stdout.isatty() else None))
    if line["response"] is None and request.replies:
        raise Failure(line["reason"], Exit.CONNECT)


def _confirm(keys: Iterable[int], definitions: Definitions, where: str, *, yes: bool) -> None:
    """Raises Failure unless requests of these APIs may be sent."""
    from kproxy.faults.reads import changes_state

    changing = sorted({definitions.shown_api_name(key) for key in keys if changes_state(key, definitions)})
    if yes or not changing:
        return
    what = f"{', '.join(changing)} may change something at {where}"
    if not sys.stdin.isatty():
        raise Failure(f"{what}: give --yes to send anyway", Exit.USAGE)
    if not click.confirm(f"{what}. Send?", err=True):
        raise Failure("nothing was sent", Exit.USAGE)


# --- the requests of a capture ---------------------------------------------------------------------------------------


def _replay(
    reader: Reader, selection: Selection, sender: Sender, speed: float | None, *, expect: bool, yes: bool
) -> None:
    from kproxy.decoders.exchange import Exchange
    from kproxy.decoders.knowledge import Knowledge, Nodes
    from kproxy.decoders.learning import learn
    from kproxy.decoders.view import View
    from kproxy.sending.recorded import Recorded

    knowledge, nodes = Knowledge(), Nodes()
    view = View(show_secrets=sender.view.show_secrets, knowledge=knowledge)
    recorded = Recorded(reader.source, reader.definitions, view)
    for batch in progress.batches(reader):
        for item in batch:
            if isinstance(item, Exchange):
                learn(item, reader.source, reader.definitions, knowledge, nodes)
        for item in selection.of(batch, reader.source, reader.definitions):
            if isinstance(item, Exchange):
                recorded.take(item)
    recorded.place(nodes)
    readings.conclude(reader, selection, health=False)
    if not recorded.exchanges:
        raise Failure("there is no request to send", Exit.EMPTY)
    keys = {one.api_key for one in recorded.exchanges if one.api_key is not None}
    _confirm(keys, reader.definitions, f"{sender.host}:{sender.port}", yes=yes)
    if recorded.left_out:
        settings.warn(f"not sent: {recorded.left_out} exchanges that have no complete request, or that authenticate")
    differing = asyncio.run(_again(recorded, sender, speed, expect=expect))
    if expect:
        total = len(recorded.exchanges)
        settings.warn(f"{total - differing} of {total} answers are as recorded")
        if differing:
            raise click.exceptions.Exit(Exit.CONDITION)


async def _again(recorded: Recorded, sender: Sender, speed: float | None, *, expect: bool) -> int:
    """Sends and prints; returns the number of exchanges whose answer differs from the recorded one."""
    from kproxy.decoders.escaping import json_text
    from kproxy.decoders.jsonform import uuid_json
    from kproxy.sending.recorded import again
    from kproxy.sending.replacing import Replacements

    replacements = Replacements()
    names: dict[str, str] = {}
    for one in recorded.exchanges:
        names |= recorded.line(one).get("topics", {})
    given = await sender.learn_cluster(sorted(set(names.values())))
    for recorded_id, name in names.items():
        if name in given:
            replacements.topic_id(recorded_id, uuid_json(given[name]))
    differing = 0
    try:
        async for sent in again(recorded, sender, replacements, speed=speed):
            line = {**sent.now, "recorded": sent.number}
            if expect and sent.changes:
                differing += 1
                line["differs"] = [{"path": one.path, "recorded": one.old, "now": one.new} for one in sent.changes]
            click.echo(json_text(line))
    finally:
        await sender.close()
    return differing
