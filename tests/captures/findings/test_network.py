"""What TCP tells: from packets to findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.findings import facts
from kproxy.captures.findings.analyzer import SECOND
from kproxy.captures.findings.making import FactMaker
from kproxy.captures.reader import read
from kproxy.decoders.problems import Code
from tests.captures import files
from tests.support.facts import BROKER, Story
from tests.support.scripts import request, response

MILLISECOND = 1_000_000
START = 1_700_000_000_000 * MILLISECOND


def pressed(number: int = 1, peer: str = "h", *, answers: bool = True, **said: Any) -> Story:
    story = Story()
    if answers:
        story.exchange("other", "ApiVersions", connection=99)
    for turn in range(number):
        at = story.at(turn).where("c", exchange=0, connection=turn + 1, peer=peer)
        story.made.append(facts.Pressure(at, 1000, 0, (0, 0, 0), (0, 0, 0))._replace(**said))
    return story


def test_a_broker_that_does_not_read() -> None:
    (finding,) = pressed(broker=(3, 1000, 400)).tells("WARN tcp.pressure h")
    assert finding.summary == (
        f"h and {BROKER}: the broker's receive window was closed 3 times, 1000 ms in all, 400 at once"
    )


def test_a_client_that_does_not_read() -> None:
    (finding,) = pressed(2, client=(1, 1500, 1500)).tells("NOTE tcp.pressure h")
    assert "closed 2 times, 3000 ms in all, 1500 at once" in finding.summary


def test_segments_that_are_sent_again() -> None:
    (finding,) = pressed(2, retransmitted=10).tells("WARN tcp.pressure h")
    assert "20 of 2000 segments were sent again (1.0%)" in finding.summary
    assert finding.cause == "The network loses packets."


@pytest.mark.parametrize(
    "story",
    [
        pressed(broker=(9, 3000, 199)),
        pressed(broker=(1, 999, 999)),
        pressed(retransmitted=19),
        pressed(9, retransmitted=9),
    ],
)
def test_little_pressure_is_quiet(story: Story) -> None:
    story.is_quiet()


def test_a_capture_with_missing_bytes_proves_nothing() -> None:
    story = Story().trouble("c", Code.GAP)
    story.made += pressed(retransmitted=500, broker=(3, 5000, 5000)).made
    assert not [one for one in story.found() if one.rule == "tcp.pressure"]


def test_a_capture_of_one_direction_proves_nothing() -> None:
    pressed(answers=False, retransmitted=500, broker=(3, 5000, 5000)).is_quiet()


# --- brokers that do not answer ---


def knocks(number: int, times: int = 3, *, refused: bool = False, every: float = 30, known: bool = True) -> Story:
    story = Story()
    if known:
        story.exchange("other", "ApiVersions")
    for turn in range(number):
        at = story.at(turn * every).where("c", exchange=0, connection=50 + turn)._replace(client_id="")
        story.made.append(facts.Unanswered(at, times, refused))
    return story


def test_a_broker_that_does_not_answer() -> None:
    (finding,) = knocks(3).tells("WARN tcp.pressure host-c")
    assert finding.summary == f"host-c and {BROKER}: 3 connections in a row were left unanswered, over 60 s"
    (finding,) = knocks(3, 1, refused=True).tells("WARN tcp.pressure host-c")
    assert "3 connections in a row were refused" in finding.summary


def test_connections_whose_end_is_told_late_shorten_nothing() -> None:
    story = knocks(4)
    story.made.append(story.made.pop(2))
    (finding,) = story.tells("WARN tcp.pressure host-c")
    assert "4 connections in a row were left unanswered, over 90 s" in finding.summary


def test_an_advertised_broker_that_does_not_answer() -> None:
    story = Story().advertises("other", "10.0.0.1")
    story.made += knocks(3, known=False).made
    story.tells("WARN tcp.pressure host-c")


def test_other_unanswered_connections_are_quiet() -> None:
    knocks(2).is_quiet()
    knocks(9, 1).is_quiet()
    knocks(9, known=False).is_quiet()
    knocks(9, every=301).is_quiet()
    knocks(9, 1, refused=True, every=7).tells("INFO tcp.pressure host-c", at_least="INFO")


def test_a_broker_that_comes_back_is_quiet() -> None:
    story = knocks(2, every=40)
    story.made += knocks(2, every=40).at(50).exchange("other", "ApiVersions", connection=99).made
    again = knocks(2, every=40).made
    story.made += [one._replace(at=one.at._replace(time=one.at.time + 90 * SECOND)) for one in again[2:]]
    story.is_quiet()


# --- from packets ---


class Wire:
    """Packets between a client and a broker."""

    def __init__(self) -> None:
        self.packets: list[tuple[int, bytes]] = []
        self.time = START
        self.seq = [1000, 5000]

    def send(self, side: int, data: bytes = b"", flags: str = "A", *, window: int = 500, again: bool = False) -> Wire:
        """The next packet of client (0) or broker (1), a millisecond later; `again` sends the last bytes again."""
        from scapy.layers.inet import IP, TCP
        from scapy.layers.l2 import Ether

        ends = [("10.0.0.7", 40_000), ("10.0.0.1", 9092)]
        (source, sport), (target, dport) = ends[side], ends[1 - side]
        seq = self.seq[side] - (len(data) if again else 0)
        tcp = TCP(sport=sport, dport=dport, flags=flags, seq=seq, ack=self.seq[1 - side], window=window)
        self.packets.append((self.time, bytes(Ether() / IP(src=source, dst=target) / tcp / data)))
        if not again:
            self.seq[side] += len(data) + ("S" in flags) + ("F" in flags)
        return self.wait(1)

    def wait(self, milliseconds: float) -> Wire:
        self.time += int(milliseconds * MILLISECOND)
        return self

    def opened(self) -> Wire:
        return self.send(0, flags="S").send(1, flags="SA").send(0)

    def talk(self, number: int) -> Wire:
        """An exchange."""
        self.send(0, request(18, 0, number, "app"), "PA")
        return self.send(1, response(18, 0, number), "PA")

    def closed(self) -> Wire:
        return self.send(0, flags="FA").send(1, flags="FA").send(0)

    def facts(self, folder: Path, *wanted: type[facts.Fact]) -> list[Any]:
        reader = read(files.write(folder / "x.pcap", files.pcap(self.packets)))
        maker = FactMaker(reader.source, reader.definitions, wanted)
        made = [one for batch in reader.batches() for one in maker.make(batch, reader.closings)]
        return [one for one in made if isinstance(one, wanted)]


@pytest.mark.parametrize("many", [1, 40])
def test_closed_windows_are_a_fact(many: int, tmp_path: Path) -> None:
    """Those of each side, however long the connection talked before."""
    wire = Wire().opened()
    for number in range(many):
        wire.talk(number)
    wire.send(1, window=0).wait(299).send(1).wait(50).send(1, window=0).wait(99).send(1, window=0).wait(100).send(1)
    for number in range(many):
        wire.talk(many + number)
    wire.send(0, window=0).wait(499).closed()
    (fact,) = wire.facts(tmp_path, facts.Pressure)
    assert fact.broker == (2, 501, 300)
    assert fact.client == (1, 500, 500)
    assert (fact.segments, fact.retransmitted) == (4 * many, 0)


def test_a_window_that_stays_closed_counts_until_the_end(tmp_path: Path) -> None:
    wire = Wire().opened().talk(1).send(1, window=0).wait(999).send(0, request(18, 0, 2, "app"), "PA")
    (fact,) = wire.facts(tmp_path, facts.Pressure)
    assert fact.broker == (1, 1000, 1000)


def test_a_reset_has_no_window(tmp_path: Path) -> None:
    assert not Wire().opened().talk(1).wait(500).send(1, flags="RA", window=0).facts(tmp_path, facts.Pressure)


def test_segments_that_are_sent_again_are_a_fact(tmp_path: Path) -> None:
    """A segment that is captured twice is none."""
    wire, data = Wire().opened(), request(18, 0, 1, "app")
    wire.send(0, data, "PA").wait(200).send(0, data, "PA", again=True).wait(200).send(0, data, "PA", again=True)
    wire.send(1, response(18, 0, 1), "PA").send(1, response(18, 0, 1), "PA", again=True).closed()
    (fact,) = wire.facts(tmp_path, facts.Pressure)
    assert (fact.segments, fact.retransmitted) == (5, 2)


def test_probes_of_the_last_segment_are_no_retransmissions(tmp_path: Path) -> None:
    """TCP probes for a lost tail after a few milliseconds, in which a receiver may delay its acknowledgement."""
    wire, data = Wire().opened(), request(18, 0, 1, "app")
    wire.send(0, data, "PA").wait(20).send(0, data, "PA", again=True).send(1, response(18, 0, 1), "PA").closed()
    assert not wire.facts(tmp_path, facts.Pressure)


@pytest.mark.parametrize(("late", "again"), [(200, 1), (2, 0)])
def test_a_gap_that_is_filled_late(late: int, again: int, tmp_path: Path) -> None:
    """The segment was lost before the capture; one that was only overtaken comes at once."""
    wire, data = Wire().opened(), request(18, 0, 1, "app")
    first, rest = data[:10], data[10:]
    wire.send(0, first, "PA").send(0, rest, "PA")
    lost = wire.packets.pop(-2)[1]
    wire.wait(late).packets.append((wire.time, lost))
    wire.wait(1).send(1, response(18, 0, 1), "PA").closed()
    found = wire.facts(tmp_path, facts.Pressure)
    assert sum(one.retransmitted for one in found) == again


@pytest.mark.parametrize(
    ("end", "expected"), [([], (3, False)), ([(1, "RA")], (3, True))], ids=["unanswered", "refused"]
)
def test_a_connection_that_nobody_answers(
    end: list[tuple[int, str]], expected: tuple[int, bool], tmp_path: Path
) -> None:
    wire = Wire()
    for _ in range(3):
        wire.send(0, flags="S").wait(1000)
        wire.seq[0] = 1000
    wire.seq[0] = 1001
    for side, flags in end:
        wire.send(side, flags=flags)
    (fact,) = wire.facts(tmp_path, facts.Unanswered)
    assert (fact.times, fact.refused) == expected
    assert fact.at.broker == BROKER


def test_an_answered_connection_is_no_such_fact(tmp_path: Path) -> None:
    assert not Wire().opened().talk(1).closed().facts(tmp_path, facts.Unanswered)
    assert not Wire().opened().closed().facts(tmp_path, facts.Unanswered)
