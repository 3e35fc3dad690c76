from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kproxy.decoders.errorcodes import error_codes
from kproxy.decoders.frame_tree import frame_tree
from kproxy.decoders.inner_problems import record_problems
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.message import Decoded, decode_request, decode_response
from kproxy.decoders.problems import Code
from kproxy.decoders.schema import Message, definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import Node
from kproxy.decoders.view import View
from kproxy.decoders.writer import write
from tests.decoders.batches.test_batch import batch
from tests.decoders.support import RELEASES, decoded, eyes, smallest
from tests.support.golden import golden, plain
from tests.support.places_to_cut import Ends, each_end

NEWEST = definitions()


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def named(name: str, version: int) -> Message:
    found = NEWEST.message(name, version)
    assert found is not None
    return found


def request(key: int, version: int, body: bytes, client: str | None = "c") -> bytes:
    head = struct.pack(">hhi", key, version, 7)
    if client is not None:
        head += struct.pack(">h", len(client)) + client.encode()
    if NEWEST.request_header_version(key, version) == 2:
        head += b"\0"
    return framed(head + body)


def codes(read: Decoded) -> list[Code]:
    return [problem.code for problem in read.problems]


def test_request_headers_of_golden_frames() -> None:
    for one, read in decoded("4.4.0"):
        if one.kind == "request":
            assert read.header["requestApiKey"] == one.api_key
            assert read.header["requestApiVersion"] == one.api_version
        assert read.header["correlationId"] == one.correlation_id


def test_every_golden_frame_of_the_older_release_is_read_with_the_newest_definitions_or_says_otherwise() -> None:
    """A layout of the older release that the newest definitions do not fit is found, and labelled."""
    labelled = set()
    for one in golden("3.9.2"):
        if one.kind == "request":
            read = decode_request(one.frame, NEWEST)
        else:
            read = decode_response(one.frame, one.api_key, one.api_version, NEWEST)
        assert not read.problems, one
        assert read.message is not None
        if read.definitions is not None:
            assert read.definitions == "3.9.2"
            labelled.add((one.name, one.api_version))
            assert plain(body_json(read.body or {}, read.message, read.version, View(show_secrets=True))) == one.body
    assert labelled
    assert all(NEWEST.older(name, version) is not None for name, version in labelled)


def test_controlled_shutdown_v0_has_no_client_id() -> None:
    read = decode_request(framed(struct.pack(">hhii", 7, 0, 3, 41)), NEWEST)
    assert read.problems == []
    assert read.header == {"requestApiKey": 7, "requestApiVersion": 0, "correlationId": 3}
    assert read.body == {"brokerId": 41}


@pytest.mark.parametrize("version", [1, 3, 4, 99])
def test_api_versions_error_35_comes_in_the_layout_of_v0(version: int) -> None:
    data = framed(struct.pack(">ihihhh", 9, 35, 1, 18, 0, 4))
    read = decode_response(data, 18, version, NEWEST)
    expected = {"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 4}]}
    assert (read.version, read.body, read.guessed_version) == (0, expected, None)
    assert codes(read) == ([Code.UNKNOWN_VERSION] if version == 99 else [])
    assert read.message is not None
    assert error_codes(read.body or {}, read.message, read.version) == [35]


def test_api_versions_with_another_error_does_not_come_in_the_layout_of_v0() -> None:
    read = decode_response(framed(struct.pack(">ihi", 9, 41, 0)), 18, 3, NEWEST)
    assert (read.body, read.version) == (None, 3)
    assert codes(read) == [Code.BAD_LENGTH]


def test_offset_commit_v0_with_a_timestamp_is_a_labelled_guess() -> None:
    quirk = NEWEST.quirk(named("OffsetCommitRequest", 0), 0)
    assert quirk is not None
    partition: dict[str, Any] = {"partitionIndex": 1, "committedOffset": 2, "committedMetadata": "m"}
    values = {"groupId": "g", "topics": [{"name": "t", "partitions": [partition]}]}
    exact = decode_request(request(8, 0, write(named("OffsetCommitRequest", 0), 0, values)), NEWEST)
    assert (exact.body, exact.problems, exact.guessed_version) == (values, [], None)
    partition["commitTimestamp"] = -1
    guess = decode_request(request(8, 0, write(quirk, 0, values)), NEWEST)
    assert (guess.body, guess.problems, guess.version, guess.guessed_version) == (values, [], 0, 1)
    assert guess.message is not None
    assert body_json(guess.body or {}, guess.message, guess.version) == values


def test_an_unknown_version_is_read_with_the_nearest_one_as_a_guess() -> None:
    nearest = NEWEST.versions(3).high
    body = write(named("MetadataRequest", nearest), nearest, {"topics": []})
    read = decode_request(request(3, 900, body), NEWEST)
    assert (read.version, read.guessed_version, codes(read)) == (nearest, nearest, [Code.UNKNOWN_VERSION])
    assert read.body is not None
    assert (read.problems[0].where, read.problems[0].offset) == ("request", 6)
    longer = decode_request(request(3, 900, body + b"new"), NEWEST)
    assert codes(longer) == [Code.UNKNOWN_VERSION, Code.TRAILING_BYTES]
    assert longer.body is not None


def test_an_unknown_key_shows_its_header() -> None:
    read = decode_request(framed(struct.pack(">hhih", 999, 1, 5, 1) + b"c" + b"anything"), NEWEST)
    assert (read.message, read.body, codes(read)) == (None, None, [Code.UNKNOWN_API])
    assert (read.header["correlationId"], read.header["clientId"]) == (5, "c")
    answer = decode_response(framed(struct.pack(">i", 5) + b"anything"), 999, 1, NEWEST)
    assert (answer.body, answer.header, codes(answer)) == (None, {"correlationId": 5}, [Code.UNKNOWN_API])


def test_unknown_keys_and_versions_are_not_remembered() -> None:
    from kproxy.decoders.message import plans as plans_of

    plans = plans_of(NEWEST)
    before = len(plans.requests), len(plans.responses)
    for number in range(-300, 0):
        decode_request(framed(struct.pack(">hhih", number, 1, 5, -1)), NEWEST)
        decode_response(framed(struct.pack(">i", 5)), 3, number, NEWEST)
    assert (len(plans.requests), len(plans.responses)) == before


def test_bytes_after_the_body_are_reported_and_the_body_kept() -> None:
    for one, read in smallest("4.4.0"):
        data = one.frame + b"\0"
        again = (
            decode_request(data, NEWEST)
            if one.kind == "request"
            else decode_response(data, one.api_key, one.api_version, NEWEST)
        )
        # the older layout of the same version may accept the added byte
        if again.definitions is None:
            assert again.body == read.body, one
            assert [(p.code, p.offset, p.where) for p in again.problems] == [
                (Code.TRAILING_BYTES, len(one.frame), one.kind)
            ]


@each_end
def test_a_frame_cut_at_any_byte_is_a_problem_in_its_place(ends: Ends) -> None:
    for one, read in smallest("4.4.0"):
        for end in ends(0, len(one.frame)):
            cut = one.frame[:end]
            if one.kind == "request":
                again = decode_request(cut, NEWEST)
            else:
                again = decode_response(cut, one.api_key, one.api_version, NEWEST)
            if again.definitions is not None or (one.api_key == 18 and again.version == 0):
                continue
            assert again.body is None, (one, end)
            assert codes(again) == [Code.TRUNCATED], (one, end)
            assert again.problems[0].where == one.kind
            assert again.problems[0].offset <= end
            assert again.header.items() <= read.header.items()


def test_text_that_is_not_utf8_is_a_problem_beside_the_body() -> None:
    body = write(named("FindCoordinatorRequest", 0), 0, {"key": "ab"}).replace(b"a", b"\xff")
    read = decode_request(request(10, 0, body), NEWEST)
    assert read.body == {"key": "\ufffdb"}
    assert [(p.code, p.path, p.where) for p in read.problems] == [(Code.BAD_UTF8, "key", "request")]
    bad_client = request(10, 0, write(named("FindCoordinatorRequest", 0), 0, {"key": "ab"})).replace(b"c", b"\xff")
    read = decode_request(bad_client, NEWEST)
    assert (read.header["clientId"], codes(read)) == ("\ufffd", [Code.BAD_UTF8])
    assert read.problems[0].path == "clientId"


def test_large_frames_are_read_without_a_copy() -> None:
    records = bytes(100_000)
    values = {"responses": [{"partitions": [{"partitionIndex": 0, "records": records}]}]}
    data = bytearray(framed(struct.pack(">i", 1) + write(named("FetchResponse", 4), 4, values)))
    read = decode_response(memoryview(data), 1, 4, NEWEST)
    assert read.body is not None
    view = read.body["responses"][0]["partitions"][0]["records"]
    data[-1] = 1
    assert view[-1] == 1


def test_records_whose_crc_does_not_match_are_a_problem_in_their_place() -> None:
    good, bad = batch(), bytearray(batch())
    bad[-2] ^= 1
    partitions: list[dict[str, Any]] = [
        {"index": 1, "records": good},
        {"index": 2, "records": bytes(good + bad)},
        {"index": 3},
    ]
    values = {"acks": 1, "topicData": [{"name": "t", "partitionData": partitions}]}
    data = request(0, 9, write(named("ProduceRequest", 9), 9, values))
    read = decode_request(data, NEWEST)
    assert read.message is not None
    body = body_json(read.body or {}, read.message, read.version)
    (problem,) = record_problems(data, read, body, "request")
    assert (problem.code, problem.where) == (Code.CRC_MISMATCH, "request")
    assert problem.path == "topicData[0].partitionData[1].records.batches[1]"
    assert data[problem.offset :].startswith(bytes(bad))
    partitions[1]["records"] = good
    clean = request(0, 9, write(named("ProduceRequest", 9), 9, values))
    read = decode_request(clean, NEWEST)
    assert record_problems(clean, read, body_json(read.body or {}, read.message, 9), "request") == []  # type: ignore[arg-type]


def problems_of(node: Node) -> list[Code]:
    return [one.problem.code for one in node.walk() if one.problem is not None]


@pytest.mark.parametrize("release", RELEASES)
def test_frame_trees_of_golden_frames(release: str) -> None:
    for one, read in decoded(release):
        side = Side.CLIENT if one.kind == "request" else Side.BROKER
        node = frame_tree(one.frame, side, one.api_key, one.api_version, eyes(release))
        assert [child.name for child in node.children] == ["size", "header", "body"]
        size, header, body = node.children
        assert (node.start, node.end, size.value) == (0, len(one.frame), len(one.frame) - 4)
        assert (header.start, header.end) == (4, read.body_start)
        assert (body.start, body.end) == (read.body_start, len(one.frame))
        assert problems_of(node) == []


def test_frame_trees_show_what_is_not_read() -> None:
    key = 999
    node = frame_tree(framed(struct.pack(">hhih", key, 1, 5, -1) + b"rest"), Side.CLIENT, None, None, NEWEST)
    assert [child.name for child in node.children] == ["size", "header", "unread"]
    assert problems_of(node) == [Code.UNKNOWN_API]
    node = frame_tree(framed(struct.pack(">i", 5) + b"rest"), Side.BROKER, None, None, NEWEST)
    assert [(child.name, child.value) for child in node.children][2] == ("unread", b"rest")
    assert problems_of(node) == []
    one, _ = smallest("4.4.0")[0]
    node = frame_tree(one.frame + b"xyz", Side.CLIENT, None, None, NEWEST)
    assert [child.name for child in node.children] == ["size", "header", "body", "trailing"]
    assert problems_of(node) == [Code.TRAILING_BYTES]
    node = frame_tree(one.frame[:-1], Side.CLIENT, None, None, NEWEST)
    assert problems_of(node) == [Code.TRUNCATED]
    for end in range(12):
        short = frame_tree(one.frame[:end], Side.CLIENT, None, None, NEWEST)
        assert Code.TRUNCATED in problems_of(short)


KEYS = st.one_of(st.sampled_from(sorted(NEWEST.apis)), st.integers(-(2**15), 2**15 - 1))
VERSIONS = st.one_of(st.integers(-1, 20), st.integers(-(2**15), 2**15 - 1))
BODIES = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3, 35, 0x41, 0x80, 0xFF]), max_size=60).map(bytes),
)


@settings(max_examples=375, deadline=None)
@given(KEYS, VERSIONS, BODIES, st.booleans())
@example(18, 3, b"\0\x23\0\0\0\0", False)
def test_any_frame_gives_a_result(key: int, version: int, body: bytes, as_view: bool) -> None:
    asked = framed(struct.pack(">hhi", key, version, 1) + body)
    answer = framed(body)
    for data, side in ((asked, Side.CLIENT), (answer, Side.BROKER), (body, Side.CLIENT), (body, Side.BROKER)):
        given_data = memoryview(data) if as_view else data
        if side is Side.CLIENT:
            read = decode_request(given_data, NEWEST)
        else:
            read = decode_response(given_data, key, version, NEWEST)
        assert all(0 <= problem.offset <= len(data) for problem in read.problems)
        assert (read.body is None) <= bool(read.problems)
        node = frame_tree(given_data, side, key, version, NEWEST)
        assert all(0 <= one.start <= one.end <= len(data) for one in node.walk())
        if len(data) >= 8:
            assert bool(problems_of(node)) == bool(read.problems)
        if read.body is not None:
            assert read.message is not None
            body_json(read.body, read.message, read.version)
            error_codes(read.body, read.message, read.version)


def test_decoded_values_do_not_depend_on_the_kind_of_buffer() -> None:
    for one, read in smallest("3.9.2"):
        view = memoryview(bytearray(one.frame))
        if one.kind == "request":
            again = decode_request(view, eyes("3.9.2"))
        else:
            again = decode_response(view, one.api_key, one.api_version, eyes("3.9.2"))
        assert replace(again, body=None) == replace(read, body=None)
        assert again.body == read.body
