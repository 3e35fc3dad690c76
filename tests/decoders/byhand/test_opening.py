"""Reading bytes without their connection, judged by golden frames, whose API and version are known."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.captures.export.nodes import Style, hex_lines, tree_lines
from kproxy.decoders.byhand import Asked, Kind, Opened, Opener
from kproxy.decoders.byhand.frames import frames, prefixed
from kproxy.decoders.byhand.readings import bare, responses
from kproxy.decoders.guessing import MOST_GUESSED
from kproxy.decoders.jsonform import base64
from kproxy.decoders.message import decode_response, response_fits
from kproxy.decoders.problems import Code
from kproxy.decoders.schema import definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import Node
from kproxy.decoders.view import View
from tests.decoders.batches.support import batch as record_batch
from tests.decoders.batches.support import record
from tests.decoders.support import eyes
from tests.support.golden import Golden, golden, plain
from tests.support.scripts import request as request_frame
from tests.support.scripts import response as response_frame

RELEASES = ("4.4.0", "3.9.2")


def opened(data: bytes, asked: Asked = Asked(), view: View | None = None) -> list[Opened]:  # noqa: B008 (frozen)
    return list(Opener(definitions(), asked, view or View(show_secrets=True)).open(data))


def one(data: bytes, asked: Asked = Asked()) -> Opened:  # noqa: B008 (frozen)
    (found,) = opened(data, asked)
    return found


def smallest(release: str, kind: str) -> list[Golden]:
    """One frame of each API version: the shortest."""
    chosen: dict[tuple[int, int], Golden] = {}
    for frame in sorted((g for g in golden(release) if g.kind == kind), key=lambda g: len(g.frame)):
        chosen.setdefault((frame.api_key, frame.api_version), frame)
    return list(chosen.values())


def response(name: str, version: int) -> Golden:
    return next(g for g in golden("4.4.0") if g.kind == "response" and (g.name, g.api_version) == (name, version))


@pytest.mark.parametrize("release", RELEASES)
def test_requests_say_what_they_are(release: str) -> None:
    for frame in golden(release):
        if frame.kind != "request":
            continue
        for data in (frame.frame, frame.frame[4:]):
            # bytes fields of golden frames hold random bytes
            (found,) = opened(data, view=View(inside=False))
            assert (found.kind, found.api_key, found.version) == (Kind.REQUEST, frame.api_key, frame.api_version)
            assert (found.given, found.problems) == (data, [])
        assert found.shift == -4
        assert "without length field" in found.guess


@pytest.mark.parametrize("release", RELEASES)
def test_responses_that_are_named(release: str) -> None:
    for frame in golden(release):
        if frame.kind != "response":
            continue
        asked = Asked(frame.api_key, frame.api_version, Side.BROKER)
        for data in (frame.frame, frame.frame[4:]):
            (found,) = Opener(eyes(release), asked, View(show_secrets=True)).open(data)
            assert plain(found.body) == frame.body
            assert (found.guess, found.problems) == ("", [])


@pytest.mark.parametrize("release", RELEASES)
def test_the_truth_is_among_the_readings_of_a_response(release: str) -> None:
    for frame in smallest(release, "response"):
        readings = [(one.message.api_key, one.version) for one in responses(frame.frame, definitions())]
        assert (frame.api_key, frame.api_version) in readings, frame
        if len(readings) == 1:
            assert one(frame.frame).guess == "no other reading fits"


def test_a_guess_says_so_and_names_what_else_fits() -> None:
    found = one(struct.pack(">iiih", 10, 7, 0, 27))
    assert (found.kind, found.message and found.message.name) == (Kind.RESPONSE, "HeartbeatResponse")
    assert found.guess == f"{len(found.others)} other readings fit, 10 of them equally likely"
    assert {"LeaveGroupResponse", "EndTxnResponse"} <= {other.message.name for other in found.others}


def test_likely_values_come_before_odd_ones() -> None:
    """The right reading has a topic's name and a known error code; other readings of the same bytes have neither."""
    body = b"\0\0\0\1" + b"\0\6orders" + b"\0\0\0\1" + struct.pack(">ihqq", 0, 0, -1, 42)
    found = one(struct.pack(">ii", len(body) + 8, 7) + b"\0\0\0\0" + body)
    assert found.message is not None
    assert (found.message.name, found.body["topics"][0]["name"]) == ("ListOffsetsResponse", "orders")


def test_an_error_code_that_is_none_speaks_against_a_reading() -> None:
    """27 is an error code, 9999 is not, and three weeks are no plausible throttle time."""

    def best(throttle: int, error: int) -> float:
        return responses(struct.pack(">iiih", 10, 7, throttle, error), definitions())[0].score

    assert best(0, 27) > 0 > best(0, 9999)
    assert best(2_000_000_000, 27) < 0


def test_a_response_after_its_request_is_known() -> None:
    request = next(
        g for g in golden("4.4.0") if g.kind == "request" and g.name == "HeartbeatRequest" and g.api_version == 2
    )
    answer = struct.pack(">iiih", 10, request.correlation_id, 0, 27)
    first, second = opened(request.frame + answer)
    assert first.kind is Kind.REQUEST
    assert (second.api_key, second.version, second.start) == (12, 2, len(request.frame))
    assert "correlation id" in second.guess
    assert not second.others
    _, cut = opened(request.frame + answer[:-4])
    assert (cut.api_key, cut.version, cut.problems[0].message) == (12, 2, "4 bytes of the frame are missing")


def test_connections_may_use_the_same_correlation_ids() -> None:
    """A response goes to the request whose response it can be; a cut response goes to none."""
    requests = {
        key: struct.pack(">ihhih", 10 + len(rest), key, 0, 7, -1) + rest for key, rest in ((16, b""), (18, b""))
    }
    answers = [struct.pack(">iihi", 10, 7, 0, 0), struct.pack(">iihihhh", 16, 7, 0, 1, 18, 0, 3)]
    opener = Opener(definitions(), Asked(), View())
    for data in requests.values():
        (asked,) = opener.open(data)
        assert asked.kind is Kind.REQUEST
    assert [next(iter(opener.open(data))).api_key for data in answers] == [16, 18]
    _, cut = opener.open(requests[16] + answers[1][:10])
    assert cut.kind is Kind.UNKNOWN


def test_frames_one_after_another() -> None:
    requests = [g.frame for g in golden("4.4.0") if g.kind == "request"][:50]
    found = opened(b"".join(requests))
    assert [each.given for each in found] == requests
    assert not any(each.problems for each in found)


def test_the_last_frame_may_be_cut() -> None:
    first, second = (g.frame for g in golden("4.4.0")[:4] if g.kind == "request")
    whole, cut = opened(first + second[:-3])
    assert not whole.problems
    assert cut.problems[0].code is Code.TRUNCATED
    assert cut.problems[0].message == "3 bytes of the frame are missing"
    alone = one(first[:-3])
    assert (alone.kind, alone.problems[0].message) == (Kind.REQUEST, "3 bytes of the frame are missing")


@pytest.mark.parametrize("version", [13, None])
def test_a_response_that_is_cut(version: int | None) -> None:
    """With or without its length field: the reading that gets further is chosen."""
    frame = max(
        (g for g in golden("4.4.0") if g.name == "MetadataResponse" and g.api_version == 13), key=lambda g: len(g.frame)
    )
    for data, shift in ((frame.frame, 0), (frame.frame[4:], -4)):
        cut = data[: len(data) * 2 // 3]
        found = opened(cut, Asked(3, version, Side.BROKER))
        assert found[0].shift == shift
        assert (found[0].header["correlationId"], found[0].version) == (frame.correlation_id, 13)
        assert found[0].given == cut


def test_no_version_fits() -> None:
    data = response("MetadataResponse", 12).frame + b"\0"
    found = one(struct.pack(">i", len(data) - 4) + data[4:], Asked(3, None, Side.BROKER))
    assert (found.api_key, found.version) == (3, 13), "both read all but the last byte, and 13 may have that one"
    assert "this one reads furthest" in found.guess
    assert found.problems


def test_a_body_alone() -> None:
    frame = response("MetadataResponse", 9)
    body = frame.frame[9:]
    found = one(body, Asked(version=9, names=frozenset({"MetadataResponse"})))
    assert (found.kind, found.version, found.guess, found.problems) == (Kind.MESSAGE, 9, "", [])
    assert found.body == frame.body
    guessed = one(body, Asked(names=frozenset({"MetadataResponse", "MetadataRequest"})))
    assert guessed.body == frame.body
    bad = one(body + b"\0\0", Asked(version=9, names=frozenset({"MetadataResponse"})))
    assert [problem.code for problem in bad.problems] == [Code.TRAILING_BYTES]
    assert bad.root.children[-1].name == "trailing"


SUBSCRIPTION = bytes.fromhex("0000000100047465 7374ffffffff")


@pytest.mark.parametrize("prefix", [b"", b"\0\0"])
def test_a_message_by_name_with_or_without_its_version_before_it(prefix: bytes) -> None:
    asked = Asked(version=0, names=frozenset({"ConsumerProtocolSubscription"}))
    found = one(prefix + SUBSCRIPTION, asked)
    assert (found.body, found.problems) == ({"topics": ["test"], "userData": None}, [])
    assert [node.name for node in found.root.children] == (["version"] if prefix else []) + ["body"]


def test_a_message_with_its_version_before_it_is_recognised() -> None:
    found = one(b"\0\0" + SUBSCRIPTION)
    assert (found.kind, found.message and found.message.name) == (Kind.MESSAGE, "ConsumerProtocolSubscription")
    assert found.guess == "no other reading fits"


@pytest.mark.parametrize(
    ("data", "name", "before", "body"),
    [
        # key and value of an offset commit, and the record of a topic
        (
            "0001 0003677270 000174 00000002",
            "OffsetCommitKey",
            ["type"],
            {"group": "grp", "topic": "t", "partition": 2},
        ),
        (
            "0003 0000000000000007 ffffffff 0000 0000019000000000",
            "OffsetCommitValue",
            ["version"],
            {"offset": 7, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 1717986918400},
        ),
        (
            "01 02 00 0274 000000000000000000000000000000ff 00",
            "TopicRecord",
            ["frameVersion", "type", "version"],
            {"name": "t", "topicId": "AAAAAAAAAAAAAAAAAAAA_w"},
        ),
    ],
)
def test_records_of_internal_topics(data: str, name: str, before: list[str], body: object) -> None:
    asked = Asked(names=frozenset({name}))
    found = one(bytes.fromhex(data), asked)
    assert (found.body, found.problems) == (body, [])
    assert [node.name for node in found.root.children] == [*before, "body"]
    assert any(reading.message.name == name for reading in bare(bytes.fromhex(data), definitions()))


BATCH = bytes.fromhex(
    "0000000000000000 00000038 ffffffff 02 00000000 0000 00000000 0000019000000000 0000019000000000"
    "ffffffffffffffff ffff ffffffff 00000001 0c 00 00 00 01 00 00"
)


def batch() -> bytes:
    import google_crc32c

    data = bytearray(BATCH)
    data[8:12] = struct.pack(">i", len(data) - 12)
    data[17:21] = struct.pack(">I", google_crc32c.value(bytes(data[21:])))
    return bytes(data)


def test_record_batches_are_recognised_by_their_checksum() -> None:
    found = one(batch() * 2)
    assert (found.kind, len(found.body["batches"]), found.problems) == (Kind.RECORDS, 2, [])
    assert len(found.body["batches"][0]["records"]) == 1
    broken = batch()[:-1] + b"\1"
    assert [problem.code for problem in one(broken).problems][:1] == [Code.CRC_MISMATCH]
    assert one(broken + b"\0").kind is not Kind.RECORDS
    asked = one(broken, Asked(records=True))
    assert [problem.code for problem in asked.problems][:1] == [Code.CRC_MISMATCH]
    cut = one(batch() + batch()[:20], Asked(records=True))
    assert [problem.code for problem in cut.problems] == [Code.TRUNCATED]
    batches, tail = cut.root.children
    (node,) = batches.children
    assert next(one for one in node.children if one.name == "records").children[0].path == "batches[0].records[0]"
    assert (tail.name, tail.start) == ("truncatedTail", len(batch()))


METADATA = bytes(15) + b"\1"
SCRAM = b"\1\x0b\0\3us\1\5SALT\7STORED\7SERVER\0"


def fetched(topic: bytes, version: int) -> bytes:
    """The frame of a Fetch response with a SCRAM credential as its record."""
    named = {"topicId": topic} if version >= 13 else {"topic": topic.decode()}
    partition = {"partitionIndex": 0, "records": record_batch(record(0, None, SCRAM), 1)}
    return response_frame(1, version, 7, responses=[{**named, "partitions": [partition]}])


@pytest.mark.parametrize(("topic", "version"), [(METADATA, 13), (b"__cluster_metadata", 12)])
@pytest.mark.parametrize("show_secrets", [False, True])
def test_a_fetch_of_the_cluster_s_metadata_withholds_credentials(
    topic: bytes, version: int, *, show_secrets: bool
) -> None:
    whole = fetched(topic, version)
    at = whole.index(b"STORED")
    asked = Asked(1, version, Side.BROKER)
    trailing = struct.pack(">i", len(whole) - 1) + whole[4:] + b"xyz"
    for data in (whole, whole[: at + 8], trailing, whole[: at - 30]):
        found = opened(data, asked, View(show_secrets=show_secrets))[0]
        style = Style(show_secrets=show_secrets, may_hold_secrets=found.may_hold_secrets, shift=found.shift)
        text = "\n".join([*hex_lines(found.root, data, style), *tree_lines(found.root, data, style)])
        secret = b"STORED".hex(" ")
        assert secret.upper() not in text.upper() or show_secrets
        if data is whole:
            assert (secret in text) == show_secrets
            assert "batches[0].recordCount" in text
        line = json.dumps(found.to_json("Fetch", show_secrets=show_secrets))
        raw = found.to_json("Fetch", show_secrets=show_secrets).get("raw")
        assert raw is None or isinstance(raw, str) == show_secrets
        assert base64(b"STORED") not in line or show_secrets


def test_another_fetch_that_cannot_be_read_shows_its_bytes() -> None:
    (found,) = opened(fetched(b"orders", 12)[:-20], Asked(1, 12, Side.BROKER), View())
    assert isinstance(found.to_json("Fetch", show_secrets=False)["raw"], str)


def test_what_is_inside_bytes_may_follow_from_the_request_before() -> None:
    asked, answered = request_frame(12, 4, 5)[4:], response_frame(12, 4, 5, errorCode=27)[4:]
    first, second = opened(request_frame(58, 0, 1, requestData=asked) + response_frame(58, 0, 1, responseData=answered))
    assert first.body["requestData"]["decoded"]["api"] == "Heartbeat"
    assert second.body["responseData"]["decoded"]["body"]["errorCode"] == 27
    assert any(node.name == "errorCode" and node.value == 27 for node in everything(second.root))


def everything(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from everything(child)


def test_secrets_are_withheld() -> None:
    token = b"\0" * 4 + b"\0\0" + b"\xff\xff" + b"\0\0\0\6" + b"secret" + b"\0" * 8
    asked = Asked(36, 1, Side.BROKER)
    (found,) = Opener(definitions(), asked, View()).open(token)
    assert found.body["authBytes"] == {"redacted": True, "sizeInBytes": 6}
    (broken,) = Opener(definitions(), asked, View()).open(token[:-1])
    assert broken.to_json("SaslAuthenticate", show_secrets=False)["raw"] == {"redacted": True, "sizeInBytes": 25}
    assert isinstance(broken.to_json("SaslAuthenticate", show_secrets=True)["raw"], str)


def test_secrets_of_records_are_withheld() -> None:
    data = bytes.fromhex("010900 0375 73 00".replace(" ", ""))
    asked = Asked(version=0, names=frozenset({"UserScramCredentialRecord"}))
    assert one(data, asked).may_hold_secrets


def walk(node: Node) -> None:
    for child in node.children:
        assert child.start <= child.end
        walk(child)


ASKED = [
    Asked(),
    Asked(side=Side.CLIENT),
    Asked(side=Side.BROKER),
    Asked(api_key=1),
    Asked(3, 12),
    Asked(3, 12, Side.BROKER),
    Asked(records=True),
    Asked(names=frozenset({"ConsumerProtocolSubscription"})),
    Asked(version=3, names=frozenset({"ConsumerProtocolSubscription", "FetchResponse"})),
]


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=80), st.sampled_from(ASKED))
def test_any_bytes(data: bytes, asked: Asked) -> None:
    found = opened(data, asked)
    assert b"".join(each.given for each in found) == data
    for each in found:
        walk(each.root)
        assert each.body is not None or each.problems


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_frames_that_are_cut_and_changed(data: st.DataObject) -> None:
    frame = bytearray(data.draw(st.sampled_from([g for g in golden("4.4.0") if len(g.frame) < 200])).frame)
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))
    changed = bytes(frame[: data.draw(st.integers(0, len(frame)))])
    found = opened(changed)
    assert b"".join(each.given for each in found) == changed
    assert all(0 <= problem.offset <= len(changed) for each in found for problem in each.problems)


def test_frames_cover_their_bytes() -> None:
    data = struct.pack(">i", 8) + bytes(8) + struct.pack(">i", 100) + bytes(3)
    found = frames(data, definitions(), lambda _: True)
    assert [(frame.start, frame.is_cut) for frame in found] == [(0, False)]
    found = frames(data, definitions(), lambda frame: len(frame) == 12)
    assert [(frame.start, frame.missing) for frame in found] == [(0, 0), (12, 97)]


@pytest.mark.system
def test_of_many_bytes_answers_with_records_are_guessed_and_no_others() -> None:
    data = record_batch(record(0, None, b"v" * MOST_GUESSED), 1)
    fetched = {"topic": "t", "partitions": [{"partitionIndex": 0, "records": data}]}
    (large,) = Opener(definitions(), Asked(), View()).open(response_frame(1, 4, 1 << 30, responses=[fetched]))
    assert large.message is not None
    assert large.message.name == "FetchResponse"
    topics = [{"name": f"topic-{number:020}"} for number in range(MOST_GUESSED // 30)]
    listed = response_frame(3, 4, 1 << 30, topics=topics)
    (unknown,) = Opener(definitions(), Asked(), View()).open(listed)
    assert unknown.kind is Kind.UNKNOWN
    assert f"other responses are tried only up to {MOST_GUESSED} bytes" in unknown.problems[-1].message
    (named,) = Opener(definitions(), Asked(api_key=3), View()).open(listed)
    assert named.message is not None
    assert named.message.name == "MetadataResponse"


@given(st.binary(max_size=80))
@settings(max_examples=15, deadline=None)
def test_what_fits_is_what_decodes_without_a_problem(data: bytes) -> None:
    frame = prefixed(data)
    for key, version in definitions().pairs():
        decoded = decode_response(frame, key, version, definitions())
        fits = decoded.body is not None and not decoded.problems
        assert response_fits(frame, key, version, definitions()) >= fits
