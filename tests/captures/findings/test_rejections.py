"""Requests that brokers refuse: facts in, findings out."""

from __future__ import annotations

import json

from kproxy.captures.findings.model import Impact, finding_json
from tests.captures.findings.test_wire import Talk
from tests.support.facts import Story

# --- meta.topic_missing ---


def test_a_topic_that_stays_missing() -> None:
    story = Story().topic("c", "orders")
    for second in (1, 3, 7):
        story.at(second).topic("c", "order", 3)
    (finding,) = story.tells("WARN meta.topic_missing c@host-c")
    assert finding.cause == "The name may be misspelt: there is a topic orders."
    assert "asked 3 times in 6 s for topic order: UNKNOWN_TOPIC_OR_PARTITION" in finding.summary


def test_a_topic_that_was_deleted() -> None:
    story = Story().topic("c", "orders")
    for second in (1, 3, 7):
        story.at(second).topic("c", "orders", 3)
    (finding,) = story.tells("WARN meta.topic_missing c@host-c")
    assert finding.cause == "The topic was there before: it was deleted."


def test_a_topic_that_is_created_is_quiet() -> None:
    Story().topic("c", "new", 3).at(1).topic("c", "new", 3).at(2).topic("c", "new", 3).at(4).topic(
        "c", "new"
    ).is_quiet()


def test_a_topic_that_was_there_between_is_quiet() -> None:
    Story().topic("c", "a", 3).at(3).topic("c", "a", 3).at(4).topic("c", "a").at(9).topic("c", "a", 3).is_quiet()


def test_two_clients_are_not_added_up() -> None:
    story = Story().topic("c", "a", 3).at(6).topic("c", "a", 3)
    story.at(7).topic("d", "a", 3).is_quiet()


# --- producer.rejected ---


def test_batches_that_are_too_large() -> None:
    story = Story().partition_io("p", error=10, size=2_000_000).at(1).partition_io("p", error=10, size=3_000_000)
    (finding,) = story.tells("ERROR producer.rejected t")
    assert "2 batches for topic t rejected: MESSAGE_TOO_LARGE; the largest had 3000000 bytes" in finding.summary


def test_errors_that_are_tried_again_are_quiet() -> None:
    story = Story()
    for error in (3, 5, 6, 7, 19, 20):
        story.partition_io("p", error=error)
    story.is_quiet()


def test_a_fetch_that_fails_is_no_rejected_batch() -> None:
    Story().partition_io("c", "Fetch", error=2).is_quiet()


# --- commit.rejected ---


def test_a_commit_after_the_rebalance() -> None:
    story = Story().commit("c", 70).at(10).commit("c", 100, 22)
    (finding,) = story.tells("WARN commit.rejected g")
    assert finding.impact == Impact("records_at_risk", 30)


def test_the_same_records_count_once() -> None:
    story = Story().commit("c", 70).at(10).commit("c", 100, 22).commit("c", 100, 22)
    (finding,) = story.tells("WARN commit.rejected g")
    assert finding.impact == Impact("records_at_risk", 30)


def test_nothing_new_was_refused() -> None:
    Story().commit("c", 70).at(10).commit("c", 70, 25).tells("NOTE commit.rejected g")


def test_commits_that_are_tried_again_are_quiet() -> None:
    story = Story().commit("c", 70)
    for error in (14, 15, 16, 27, 113):
        story.commit("c", 100, error)
    story.is_quiet()


# --- group.config_rejected, group.assignor_clash ---


def test_a_session_timeout_that_the_broker_does_not_allow() -> None:
    story = Story()
    for second in (0, 1):
        story.at(second).join("c", error=26, session=0.001, generation=None)
    (finding,) = story.tells("ERROR group.config_rejected g")
    assert "INVALID_SESSION_TIMEOUT (session.timeout.ms 1), 2 times" in finding.summary


def test_a_join_that_succeeds_soon_is_a_note() -> None:
    """The limits of the broker, or of the client, were changed."""
    story = Story().join("c", error=26, session=0.001, generation=None).at(9).join("c")
    story.tells("NOTE group.config_rejected g")
    story = Story().join("c", error=26, session=0.001, generation=None).at(31).join("c")
    story.tells("ERROR group.config_rejected g")


def test_a_rolling_change_of_assignors_is_a_note() -> None:
    """The last members with the old assignor had not yet left."""
    story = Story().join("c", error=23, generation=None).at(5).join("c", 2)
    story.tells("NOTE group.assignor_clash g")
    story = Story().join("c", error=23, generation=None).at(1).join("c", error=23, generation=None).at(2).join("c", 2)
    story.tells("ERROR group.assignor_clash g")


def test_assignors_that_do_not_fit() -> None:
    story = Story().join("c", error=23, generation=None, subscription="range,roundrobin 0011")
    (finding,) = story.tells("ERROR group.assignor_clash g")
    assert "INCONSISTENT_GROUP_PROTOCOL (assignors range,roundrobin)" in finding.summary


def test_the_first_join_that_is_always_refused_is_quiet() -> None:
    Story().join("c", error=79).join("c").is_quiet()


def test_an_answer_with_a_generation_refuses_nobody() -> None:
    Story().join("c", error=26, generation=4).is_quiet()


# --- auth.sasl ---


def test_wrong_credentials() -> None:
    story = Story().auth("c", "failed", "SASL_AUTHENTICATION_FAILED")
    (finding,) = story.tells("WARN auth.sasl c@host-c")
    assert "(PLAIN, principal alice): SASL_AUTHENTICATION_FAILED" in finding.summary
    for second in (1, 2):
        story.at(second).auth("c", "failed", "SASL_AUTHENTICATION_FAILED")
    story.tells("ERROR auth.sasl c@host-c")


def test_a_success_ends_the_count() -> None:
    story = Story()
    for _ in range(3):
        story.auth("c", "failed", "x").auth("c", "authenticated")
    story.tells("WARN auth.sasl c@host-c")


def test_an_error_that_authentication_never_answers_is_quiet() -> None:
    Story().auth("c", "failed", "OFFSET_OUT_OF_RANGE").auth("c", "failed", "UNKNOWN(-7)").is_quiet()


def test_the_mechanism_may_have_its_own_words() -> None:
    Story().auth("c", "failed", "e=invalid-proof", mechanism="SCRAM-SHA-256").tells("WARN auth.sasl c@host-c")


def test_credentials_are_never_shown() -> None:
    talk = Talk().ask(17, 1, {"mechanism": "PLAIN"}, {"mechanisms": ["PLAIN"]})
    for _ in range(3):
        talk.ask(36, 2, {"authBytes": b"\0alice\0wonderland"}, {"errorCode": 58, "errorMessage": "Invalid"})
    found = talk.found()
    assert "auth.sasl" in {one.rule for one in found}
    assert "wonderland" not in "".join(json.dumps(finding_json(one)) for one in found)


def test_authentication_that_succeeds_is_quiet() -> None:
    Story().auth("c", "choosing").auth("c", "authenticating").auth("c", "authenticated").is_quiet()


# --- auth.denied ---


def test_a_client_without_rights() -> None:
    story = Story()
    for second in (0, 20, 40):
        story.at(second).topic("c", "secret", 29)
    (finding,) = story.tells("WARN auth.denied c@host-c")
    assert "denied topic secret 3 times: TOPIC_AUTHORIZATION_FAILED" in finding.summary


def test_a_probe_is_quiet() -> None:
    story = Story()
    for second in (0, 40, 80):
        story.at(second).topic("c", "secret", 29)
    story.is_quiet()


def test_an_error_of_another_kind_of_resource_is_quiet() -> None:
    story = Story()
    for _ in range(5):
        story.join("c", error=29, generation=None)
    story.is_quiet()


def test_different_resources_are_not_added_up() -> None:
    Story().topic("c", "a", 29).topic("c", "b", 29).topic("c", "d", 29).is_quiet()


def test_groups_and_transactional_ids() -> None:
    story = Story()
    for _ in range(3):
        story.join("c", error=30, generation=None).txn("c", "init", 53)
    story.tells("WARN auth.denied c@host-c", "WARN auth.denied c@host-c")
