from __future__ import annotations

from kproxy.decoders.schema import definitions, irregular


def test_every_irregularity_gives_its_reason() -> None:
    known = definitions().apis
    for row in irregular.IRREGULARITIES:
        assert row.api_key in known
        assert len(row.reason) > 40
    assert len(irregular.IRREGULARITIES) == len({(row.kind, row.api_key) for row in irregular.IRREGULARITIES})


def test_header_versions_against_the_rule() -> None:
    assert irregular.request_header_version(7, 0) == 0
    assert irregular.request_header_version(7, 1) is None
    assert irregular.response_header_version(18, 3) == 0
    assert irregular.response_header_version(1, 3) is None


def test_produce_without_acks_is_not_answered() -> None:
    assert irregular.may_expect_no_reply(0)
    assert not irregular.may_expect_no_reply(1)
    assert irregular.expects_no_reply(0, 9, 0)
    assert not irregular.expects_no_reply(0, 9, -1)
    assert not irregular.expects_no_reply(0, 9, None)
    assert not irregular.expects_no_reply(1, 9, 0)


def test_bare_tokens_follow_the_first_handshake_only() -> None:
    assert irregular.bare_tokens_follow(17, 0)
    assert not irregular.bare_tokens_follow(17, 1)
    assert not irregular.bare_tokens_follow(36, 0)


def test_the_error_that_is_framed_as_v0() -> None:
    assert irregular.v0_answer_error(18) == 35
    assert irregular.v0_answer_error(3) is None


def test_offset_commit_v0_with_the_timestamp_of_v1() -> None:
    known = definitions()
    message = known.request(8, 0)
    assert message is not None
    wrong = known.quirk(message, 0)
    assert wrong is not None
    names = []
    for each in (message, wrong):
        topics = each.fields[-1].struct
        assert topics is not None
        partitions = topics.fields[-1].struct
        assert partitions is not None
        names.append([field.name for field in partitions.fields if 0 in field.versions])
    assert names == [
        ["partitionIndex", "committedOffset", "committedMetadata"],
        ["partitionIndex", "committedOffset", "commitTimestamp", "committedMetadata"],
    ]
    assert known.quirk(message, 1) is None
    response = known.response(8, 0)
    assert response is not None
    assert known.quirk(response, 0) is None
    header = known.message("RequestHeader", 1)
    assert header is not None
    assert known.quirk(header, 1) is None
