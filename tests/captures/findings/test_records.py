"""Records that are damaged or too large: facts in, findings out."""

from __future__ import annotations

from kproxy.captures.findings import facts
from kproxy.captures.findings.making import FactMaker
from kproxy.decoders.problems import Code
from tests.decoders.batches.support import batch, message, record
from tests.support.facts import Story
from tests.support.scripts import Script, eyes, play, request, response

# --- record.corrupt ---


def damaged(client: str, api: str, crc: int = 0xDEAD, story: Story | None = None) -> Story:
    story = story or Story()
    at = story.where(client, key={"Produce": 0, "Fetch": 1}[api])
    story.made.append(facts.Corrupt(at, "t", 0, 42, crc, 900))
    return story


def test_a_producer_that_sends_damaged_batches() -> None:
    (finding,) = damaged("p", "Produce", story=damaged("p", "Produce")).tells("ERROR record.corrupt t")
    assert finding.summary == (
        "p@host-p sent batches of topic t whose CRC does not match (batches: 2; 900 bytes of t-0, the CRC says "
        "0x0000dead)"
    )
    assert "producer" in finding.cause


def test_a_broker_that_serves_damaged_batches() -> None:
    (finding,) = damaged("c", "Fetch", story=damaged("d", "Fetch")).tells("ERROR record.corrupt t")
    assert "10.0.0.1:9092 served batches of topic t whose CRC does not match (batches: 2;" in finding.summary
    assert "t-0 at offset 42" in finding.summary


def test_software_that_computes_no_crc_is_quiet() -> None:
    damaged("p", "Produce", crc=0).is_quiet()


def test_a_connection_with_missing_bytes_is_quiet() -> None:
    story = damaged("c", "Fetch", story=Story().trouble("c", Code.GAP))
    assert not [one for one in story.found() if one.rule == "record.corrupt"]


def test_bytes_that_changed_on_their_way() -> None:
    good = batch(record(0, b"key", b"value"), 1)
    bad = good[:-1] + bytes([good[-1] ^ 1])
    topic = {
        "name": "t",
        "partitionData": [{"index": number, "records": one} for number, one in enumerate((good, bad))],
    }
    answer = {"topic": "t", "partitions": [{"partitionIndex": 5, "records": bad + good}]}
    script = Script().client(request(0, 8, 1, "app", acks=1, topicData=[topic])).broker(response(0, 8, 1))
    script.client(request(1, 11, 2, "app")).broker(response(1, 11, 2, responses=[answer]))
    played = play(script.end())
    found = list(FactMaker(played.tape, eyes(), (facts.Corrupt,)).make(played.exchanges))
    assert [(one.at.key, one.partition, one.size) for one in found if isinstance(one, facts.Corrupt)] == [
        (0, 1, len(bad)),
        (1, 5, len(bad)),
    ]


def test_a_batch_that_the_fetch_size_cuts_is_no_damage() -> None:
    good = batch(record(0, b"key", b"value"), 1)
    found: list[facts.Fact] = []
    for version in (2, 11):
        answer = {"topic": "t", "partitions": [{"partitionIndex": 5, "records": good + good[:-9]}]}
        script = Script().client(request(1, version, 1, "app")).broker(response(1, version, 1, responses=[answer]))
        played = play(script.end())
        found += FactMaker(played.tape, eyes(), (facts.Corrupt,)).make(played.exchanges)
    assert not [one for one in found if isinstance(one, facts.Corrupt)]


# --- fetch.oversize_stuck ---


def cut(*offsets: int) -> Story:
    story = Story()
    for second, offset in enumerate(offsets):
        at = story.at(second).where("c", key=1, version=1)
        story.made.append(facts.CutRecord(at, "t", 0, offset, 2_000_000, 1_048_576))
    return story


def test_a_message_that_never_fits() -> None:
    (finding,) = cut(70, 70, 70).tells("ERROR fetch.oversize_stuck c@host-c")
    assert finding.summary == (
        "c@host-c got only a part of the message at offset 70 of t-0 (responses: 3, bytes of the message: 2000000, "
        "limit of the request: 1048576)"
    )


def test_a_client_that_goes_on_is_quiet() -> None:
    cut(70, 70, 71, 71, 72).is_quiet()


def test_only_a_message_that_is_cut_is_a_fact() -> None:
    large = message(1, 70, None, bytes(90))
    for records, found in ((large[:40], 1), (large[:5], 1), (large + large[:40], 0), (b"", 0)):
        for version, least in ((2, found), (3, 0)):
            asked = {"topic": "t", "partitions": [{"partition": 0, "fetchOffset": 70, "partitionMaxBytes": 40}]}
            answer = {"topic": "t", "partitions": [{"partitionIndex": 0, "records": records}]}
            script = Script().client(request(1, version, 1, "app", topics=[asked]))
            played = play(script.broker(response(1, version, 1, responses=[answer])).end())
            made = list(FactMaker(played.tape, eyes(), (facts.CutRecord,)).make(played.exchanges))
            cuts = [one for one in made if isinstance(one, facts.CutRecord)]
            assert len(cuts) == least
            assert all((one.offset, one.most) == (70, 40) for one in cuts)
