"""The upgrade audit of real captures, against what their requests say, and its bounds."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.analysis import audit
from kproxy.captures.analysis.audit import Audit, Client, Offers, Use, Verdict, judge
from kproxy.captures.analysis.seen import Decoder
from kproxy.captures.export.audit import COLUMNS, csv_lines, notes, page
from kproxy.captures.formats.pcapng_writer import LINKTYPE_RAW
from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.schema.model import Versions
from kproxy.decoders.schema.served import Served, served
from tests.captures import files
from tests.captures.traffic import KAFKA_0_8, KAFKA_1_1, LIBRDKAFKA, packets
from tests.decoders.test_escaping import HOSTILE, controls


def audited(*paths: Path) -> Audit:
    reader = read(list(paths))
    made = Audit(reader.source, reader.definitions, reader.health)
    for item in reader:
        if isinstance(item, Exchange):
            made.add(item)
    reader.close()
    return made


def found(result: dict[str, Any]) -> set[tuple[str, str, str, int, int]]:
    return {(row["verdict"], row["client_id"], row["api"], row["version"], row["count"]) for row in result["rows"]}


def chosen(result: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    row: dict[str, Any]
    (row,) = [row for row in result["rows"] if wanted.items() <= row.items()]
    return row


def capture(path: Path, requests: list[bytes], *, syn: bool = True, host: str = "10.0.0.1") -> Path:
    """One connection with these requests, which are not answered."""
    from scapy.layers.inet import IP, TCP

    taken, sent = [], 1
    for number, (flags, data) in enumerate([("S", b"")] * syn + [("PA", request) for request in requests]):
        tcp = TCP(sport=40000, dport=9092, seq=sent, ack=1, flags=flags)
        taken.append((10**18 + number * 10**6, bytes(IP(src=host, dst="10.0.0.9") / tcp / data)))
        sent += len(data) + (flags == "S")
    path.write_bytes(files.pcap(taken, link=LINKTYPE_RAW))
    return path


def request(key: int, version: int, number: int, body: bytes, client_id: str = "app") -> bytes:
    name = client_id.encode()
    head = struct.pack(">hhih", key, version, number, len(name)) + name
    return struct.pack(">i", len(head) + len(body)) + head + body


def metadata(number: int, client_id: str) -> bytes:
    return request(3, 1, number, struct.pack(">i", -1), client_id)


def list_offsets(number: int, client_id: str = "app", topic: str = "t", version: int = 0) -> bytes:
    body = struct.pack(">iih", -1, 1, len(topic)) + topic.encode() + struct.pack(">iiq", 1, 0, -1)
    return request(2, version, number, body + (struct.pack(">i", 1) if version == 0 else b""), client_id)


# --- real captures; counts are those of the requests in their exchange JSON ---


def test_the_clients_of_0_8_are_cut_off_and_its_brokers_are_not() -> None:
    result = audited(KAFKA_0_8).result(served())
    assert found(result) == {
        ("cut-off", "", "ListOffsets", 0, 2),  # GetOffsetShell, whose brokers share the empty client id
        ("cut-off", "SimpleConsumerShell", "Fetch", 0, 3),
        ("cut-off", "SimpleConsumerShell", "ListOffsets", 0, 3),
        ("cut-off", "console-producer", "Produce", 0, 38),
        ("broker", "", "StopReplica", 0, 6),
        ("broker", "", "ControlledShutdown", 0, 1),
        ("broker", "ReplicaFetcherThread-0-1", "Fetch", 0, 17),
        ("broker", "ReplicaFetcherThread-0-2", "Fetch", 0, 36),
        ("broker", "id_1-host_127.0.0.1-port_21001", "LeaderAndIsr", 0, 13),
        ("broker", "id_1-host_127.0.0.1-port_21001", "UpdateMetadata", 0, 16),
        ("broker", "id_2-host_127.0.0.1-port_21002", "LeaderAndIsr", 0, 1),
        ("broker", "id_2-host_127.0.0.1-port_21002", "UpdateMetadata", 0, 2),
    }
    assert [row["verdict"] for row in result["rows"]] == ["cut-off"] * 4 + ["broker"] * 8
    producer = chosen(result, client_id="console-producer")
    assert producer["topics"] == ["j-gzip", "j-none", "j-snappy"]
    assert (producer["message_formats"], producer["served"], producer["negotiates"]) == ([0], "3-13", False)
    assert (producer["host"], producer["loses"]) == ("127.0.0.1", "writing to topics")
    assert producer["first"] < producer["last"]
    assert result["watched"]["exchanges"] == 154
    assert result["watched"]["seconds"] == pytest.approx(6.87, abs=0.01)
    assert result["watched"]["share_of_day"] == round(1 / 1440, 4)


def test_3_9_says_that_they_are_deprecated() -> None:
    result = audited(KAFKA_0_8).result(served("3.9"))
    assert {row["verdict"] for row in result["rows"]} == {"deprecated", "broker"}
    assert chosen(result, client_id="console-producer")["why"] == "3.9.2 marks this version as deprecated"


def test_the_clients_of_1_1_go_on() -> None:
    result = audited(KAFKA_1_1).result(served())
    assert result["verdicts"] == {"cut-off": 0, "unsure": 0, "deprecated": 0, "broker": 6}
    assert ("broker", "broker-1-fetcher-0", "OffsetForLeaderEpoch", 0, 5) in found(result)


def test_the_clients_of_4_4_go_on() -> None:
    for release in ("newest", "4.1", "4.0"):
        assert audited(LIBRDKAFKA).result(served(release))["rows"] == [], release


def test_two_captures_are_one_audit() -> None:
    result = audited(KAFKA_0_8, LIBRDKAFKA).result(served())
    assert result["watched"]["exchanges"] == 154 + 176
    assert result["verdicts"]["cut-off"] == 4
    assert result["watched"]["share_of_day"] == round(2 / 1440, 4)
    assert chosen(result, client_id="SimpleConsumerShell", api="Fetch")["negotiates"] is False


def side(source: Path, at: int, ports: set[int], path: Path) -> Path:
    """The packets of one side: those whose source (34) or destination (36) is a broker's port."""
    kept = [one for one in packets(source) if int.from_bytes(one[1][at : at + 2], "big") in ports]
    path.write_bytes(files.pcap(kept))
    return path


def test_requests_alone_tell_all(tmp_path: Path) -> None:
    result = audited(side(KAFKA_0_8, 36, {21001, 21002}, tmp_path / "one.pcap")).result(served())
    assert result["verdicts"] == {"cut-off": 4, "unsure": 0, "deprecated": 0, "broker": 8}
    assert result["watched"]["without_response"] > 100
    assert chosen(result, client_id="SimpleConsumerShell", api="Fetch")["message_formats"] == []


def test_responses_alone_tell_how_little_is_known(tmp_path: Path) -> None:
    result = audited(side(LIBRDKAFKA, 34, {19092}, tmp_path / "one.pcap")).result(served())
    assert result["rows"] == []
    assert result["watched"]["without_request"] > 100
    assert any(note.endswith("without a request in the capture.") for note in notes(result))


def test_another_cluster_by_what_its_brokers_offer() -> None:
    offered = audited(LIBRDKAFKA).offers.together("new.pcap")
    assert offered is not None
    assert offered.versions[0] == Versions(3, 13)  # advertised as 0-13
    result = audited(KAFKA_0_8).result(offered)
    assert result["verdicts"]["cut-off"] == 4
    assert chosen(result, client_id="console-producer")["why"] == (
        "new.pcap serves no version below 3, and the client does not negotiate"
    )
    old = audited(KAFKA_1_1).offers.together("old.pcap")
    assert old is not None
    rows = audited(LIBRDKAFKA).result(old)["rows"]
    assert {(row["client_id"], row["api"]) for row in rows} == {
        ("shop-c-consumer-0", "ConsumerGroupHeartbeat"),
        ("shop-c-consumer-1", "ConsumerGroupHeartbeat"),
    }
    assert audited(KAFKA_0_8).offers.together("none.pcap") is None


# --- what decides ---


def judged(key: int, version: int, target: Served, offered: int | None = None, **client: Any) -> tuple[str, str] | None:
    verdict = judge(Client("h", "app", **client), key, version, Use(), target, offered)
    return None if verdict is None else (verdict[0].value, verdict[1])


@pytest.mark.parametrize(
    ("client", "offered", "verdict"),
    [
        ({"began": True}, None, "cut-off"),
        ({"began": True}, 2, "cut-off"),
        ({}, None, "unsure"),
        ({}, 2, "unsure"),
        ({}, 7, "cut-off"),
        ({"negotiates": True}, None, "unsure"),
        ({"negotiates": True}, 2, "unsure"),
        ({"negotiates": True}, 7, "cut-off"),
        ({"negotiates": True, "broker": True}, 7, "broker"),
    ],
)
def test_a_client_that_may_know_more_is_not_called_cut_off(
    client: dict[str, bool], offered: int | None, verdict: str
) -> None:
    refused = judged(0, 2, served("4.0"), offered, **client)
    assert refused is not None
    assert refused[0] == verdict
    assert judged(0, 3, served("4.0"), offered, **client) is None


def test_a_client_that_produces_is_no_broker() -> None:
    target = served("4.0")
    fetcher = {"broker": True, "began": True}
    assert judged(1, 0, target, **fetcher) == (
        "broker",
        "4.0.0 serves no version below 4, and the client does not negotiate",
    )
    with_produce = judged(1, 0, target, **fetcher, uses={(0, 3): Use()})
    assert with_produce is not None
    assert with_produce[0] == "cut-off"
    control = judged(6, 0, target, began=True, uses={(0, 3): Use()})
    assert control is not None
    assert control[0] == "broker"


@pytest.mark.parametrize(
    ("release", "verdict"), [("3.9", "deprecated"), ("4.0", "cut-off"), ("4.0.1", "deprecated"), ("4.4", "deprecated")]
)
def test_join_group_0_is_refused_by_4_0_0_alone(release: str, verdict: str) -> None:
    found = judged(11, 0, served(release), began=True)
    assert found is not None
    assert found[0] == verdict
    if verdict == "deprecated":
        assert found[1].endswith("serves this version, Kafka 4.0.0 does not")


def test_early_access() -> None:
    assert judged(78, 0, served("4.0"), negotiates=True) == (
        "unsure",
        "4.0.0 serves this version only with unstable.api.versions.enable (early access)",
    )
    assert judged(78, 0, served("4.1"), 0, negotiates=True) is not None
    assert judged(78, 1, served("4.1"), negotiates=True) is None
    assert judged(22, 6, served("4.4"), negotiates=True) is None  # it may speak 5


def test_versions_above_what_is_served_are_for_those_who_do_not_negotiate() -> None:
    target = Served("other.pcap", {0: Versions(3, 8), 3: Versions(0, 9)})
    assert judged(0, 9, target, negotiates=True) is None
    assert judged(0, 9, target) is None
    refused = judged(0, 9, target, began=True)
    assert refused is not None
    assert refused[0] == "cut-off"
    assert judged(22, 1, target, negotiates=True) == ("cut-off", "other.pcap does not serve this API")
    assert judged(71, 0, target, negotiates=True) is None  # telemetry is left out where it is not offered
    assert judged(18, 4, target) is None
    assert judged(31_000, 0, target, began=True) is None  # not an API that Kafka ever had


def test_an_offer_that_makes_no_sense_is_none(tmp_path: Path) -> None:
    offers = Offers()
    ranges = [(0, -5, 3), (1, 9, 4), (31_000, 0, 1), (3, 0, 12)]
    response = {"apiKeys": [{"apiKey": key, "minVersion": low, "maxVersion": high} for key, low, high in ranges]}
    asked = capture(tmp_path / "a.pcap", [metadata(1, "known Kafka"), request(18, 0, 2, b"")])
    reader = read(asked)
    decoder = Decoder(reader.source, reader.definitions)
    (seen,) = [one for item in reader if isinstance(item, Exchange) and (one := decoder.of(item)) and one.key == 18]
    seen.response = response
    offers.add(seen)
    reader.close()
    together = offers.together("x")
    assert together is not None
    assert together.versions == {3: Versions(0, 12)}


def test_what_brokers_offer_together() -> None:
    offers = Offers()
    offers._brokers = {
        "a": {0: Versions(0, 9), 3: Versions(0, 9), 22: Versions(0, 1)},
        "b": {0: Versions(3, 8), 3: Versions(0, 12)},
        "controller": {1: Versions(0, 12)},
    }
    together = offers.together("x")
    assert together is not None
    assert together.versions == {0: Versions(3, 8), 3: Versions(0, 9)}
    assert offers.highest(["a", "b", "c"], 0) == 9
    assert offers.highest(["c"], 0) is None


def test_old_formats_of_every_batch() -> None:
    def batch(magic: int, more: int) -> bytes:
        return struct.pack(">qiiB", 0, 5 + more, 0, magic) + bytes(more)

    assert list(audit._old_magics(batch(0, 9) + batch(2, 50) + batch(1, 20) + b"cut")) == [0, 1]
    assert list(audit._old_magics(b"")) == []
    assert list(audit._old_magics(struct.pack(">qiiB", 0, -1, 0, 0))) == [0]


# --- who it is ---


def test_principal_and_groups(tmp_path: Path) -> None:
    asked = [
        request(17, 1, 1, b"\0\5PLAIN"),
        request(36, 0, 2, struct.pack(">i", 16) + b"\0alice\0wonderful"),
        list_offsets(3),
        request(9, 0, 4, b"\0\3grp" + struct.pack(">i", 0)),
    ]
    rows = audited(capture(tmp_path / "a.pcap", asked)).result(served())["rows"]
    assert [row["principals"] for row in rows] == [["alice"]] * 2
    assert [row["groups"] for row in rows] == [["grp"]] * 2
    assert rows[0]["topics"] == ["t"]
    assert not any("wonderful" in str(row) for row in rows)


# --- hostile input and bounds ---


def test_a_capture_that_began_in_the_middle(tmp_path: Path) -> None:
    opened = audited(capture(tmp_path / "a.pcap", [metadata(1, "known Kafka"), list_offsets(2)])).result(served())
    assert chosen(opened, client_id="app")["verdict"] == "cut-off"
    middle = capture(tmp_path / "b.pcap", [metadata(1, "known Kafka"), list_offsets(2)], syn=False)
    row = chosen(audited(middle).result(served()), client_id="app")
    assert (row["verdict"], row["negotiates"]) == ("unsure", None)
    assert row["why"].endswith("no connection of the client began in the capture, so it may negotiate")


def test_names_that_are_markup_formulas_or_control_a_terminal(tmp_path: Path) -> None:
    names = [HOSTILE, "=cmd|' /C calc'!A0", "<script>alert(1)</script>", 'a,"b\nc']
    asked = [metadata(1, "known Kafka"), *(list_offsets(2 + n, name, name) for n, name in enumerate(names))]
    result = audited(capture(tmp_path / "a.pcap", asked)).result(served())
    assert {row["client_id"] for row in result["rows"]} == set(names)
    html = "\n".join(page(result))
    assert not controls(html) - {"\n"}
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert not re.search(r'(src|href)="', html)
    lines = list(csv_lines(result))
    assert len(lines) == 1 + len(names)
    assert not any(controls(line) for line in lines)
    cells = [line.split(",")[COLUMNS.index("client_id")] for line in lines]
    assert any(cell.startswith("'=cmd") for cell in cells)


def test_memory_is_bounded_and_what_is_left_out_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MOST_CLIENTS", 3)
    monkeypatch.setattr(audit, "MOST_NAMES", 2)
    monkeypatch.setattr(audit, "MOST_USES", 1)
    asked = [metadata(1, "known Kafka"), *(list_offsets(n, "app", f"t{n}") for n in range(2, 7))]
    asked += [list_offsets(n, "app", "t2", version=1) for n in range(7, 10)]
    asked += [list_offsets(n, f"c{n}") for n in range(10, 15)]
    result = audited(capture(tmp_path / "a.pcap", asked)).result(served())
    assert result["clients"] == 3
    assert result["left_out"] == {"clients": 4, "versions": 3, "names": 3}
    row = chosen(result, client_id="app")
    assert (row["topics"], row["more_names"]) == (["t2", "t3"], True)
    assert "Left out, because the audit has limits: 4 clients." in list(notes(result))


def test_memory_is_bounded_over_all_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MOST_USES_IN_ALL", 3)
    monkeypatch.setattr(audit, "MOST_NAMES_IN_ALL", 2)
    asked = [metadata(1, "known Kafka"), *(list_offsets(n, f"c{n}") for n in range(2, 7))]
    result = audited(capture(tmp_path / "a.pcap", asked)).result(served())
    assert result["left_out"] == {"clients": 0, "versions": 3, "names": 0}
    assert [row["client_id"] for row in result["rows"]] == ["c2", "c3"]


def test_every_verdict_is_explained() -> None:
    from kproxy.captures.export.audit import MEANINGS

    assert list(MEANINGS) == [verdict.value for verdict in Verdict]
