"""A recording that is served answers its own requests, sent again, as it was recorded."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from kproxy.captures.reader import Reader, read
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.knowledge import Knowledge, Nodes
from kproxy.decoders.learning import learn
from kproxy.decoders.view import View
from kproxy.sending.broker import Access
from kproxy.sending.recorded import Recorded, Sent, again
from kproxy.sending.replacing import Replacements
from kproxy.sending.sender import Sender
from kproxy.serving.answers import Answers
from kproxy.serving.server import Server

FINDINGS = Path(__file__).parents[2] / "data" / "findings"
CAPTURES = sorted(path.name.removesuffix(".pcap.xz") for path in FINDINGS.glob("*.pcap.xz"))


def taken(reader: Reader) -> tuple[Answers, Recorded]:
    answers = Answers(reader.source, reader.definitions)
    recorded = Recorded(reader.source, reader.definitions, View(knowledge=Knowledge()))
    nodes = Nodes()
    for batch in reader.batches():
        for item in batch:
            if isinstance(item, Exchange) and item.response is not None and not item.response.missing:
                answers.take(item)
                recorded.take(item)
                learn(item, reader.source, reader.definitions, Knowledge(), nodes)
    recorded.place(nodes)
    return answers, recorded


async def sent_to_itself(answers: Answers, recorded: Recorded) -> tuple[list[Sent], Server]:
    server = Server(answers, "error", None, None, lambda _: None)
    port = await server.listen(0, sorted(answers.nodes))
    sender = Sender("127.0.0.1", port, Access(seconds=20), recorded.definitions, recorded.view)
    sender.nodes = {node: (server.host, port) for node, port in server.ports.items()}
    try:
        return [one async for one in again(recorded, sender, Replacements())], server
    finally:
        await sender.close()
        await server.close()


@pytest.mark.parametrize("name", CAPTURES)
def test_a_recording_answers_its_own_requests_as_recorded(name: str) -> None:
    with closing(read(FINDINGS / f"{name}.pcap.xz")) as reader:
        answers, recorded = taken(reader)
        if not recorded.exchanges:
            pytest.skip("the capture has no whole exchange")
        sent, server = asyncio.run(sent_to_itself(answers, recorded))
    assert not server.missed
    assert [one.number for one in sent] == sorted(one.number for one in recorded.exchanges)
    assert not [(one.number, one.now["api"], one.changes) for one in sent if one.changes]
