"""Other protocols on Kafka ports, and responses that fit no request: facts in, findings out."""

from __future__ import annotations

import pytest

from kproxy.captures.findings.model import Confidence
from kproxy.decoders.exchange import Status
from kproxy.decoders.problems import Code
from tests.support.facts import Story

WRONG = "ERROR conn.wrong_protocol host-stranger"


def test_tls_to_a_plaintext_listener() -> None:
    story = Story().exchange("app").at(1).tls("stranger").at(1.003).closes("stranger", got=0)
    (finding,) = story.tells(WRONG)
    assert finding.confidence is Confidence.PROVEN
    assert "sent TLS to 10.0.0.1:9092 (connections: 1)" in finding.summary


def test_it_does_not_matter_when_the_listener_proves_to_be_plaintext() -> None:
    Story().tls("stranger").at(0.1).closes("stranger", got=0).at(5).exchange("app").tells(WRONG)


@pytest.mark.parametrize(
    ("first", "what"),
    [(b"GET / HTTP/1.1", "HTTP"), (b"SSH-2.0-OpenSSH_9", "SSH"), (b"PROXY TCP4 ", "the PROXY protocol")],
)
def test_other_protocols(first: bytes, what: str) -> None:
    (finding,) = Story().exchange("app").at(1).closes("stranger", first=first, got=0).tells(WRONG)
    assert f"sent {what} to" in finding.summary
    assert finding.evidence[0].note.startswith(f"begins with {first.hex(' ')}")


def test_a_client_that_tries_again_is_one_finding() -> None:
    story = Story().exchange("app")
    for second in range(5):
        story.at(second).closes("stranger", first=b"GET / HTTP/1.1", got=0)
    (finding,) = story.tells(WRONG)
    assert finding.occurrences == finding.impact.value == 5


def test_a_listener_without_any_answer_wants_tls() -> None:
    story = Story()
    for second in range(3):
        story.at(second).exchange("stranger", "ApiVersions", Status.NO_RESPONSE, connection=second + 1)
        story.at(second + 0.1).closes("stranger", connection=second + 1, got=0)
    (finding,) = story.tells(WRONG)
    assert finding.confidence is Confidence.STRONG


# --- guards ---


def test_tls_to_a_tls_listener_is_quiet() -> None:
    Story().exchange("app").tls("stranger").at(1).closes("stranger", got=4000).is_quiet()


def test_a_port_where_no_kafka_is_spoken_is_quiet() -> None:
    Story().closes("stranger", first=b"SSH-2.0-OpenSSH_9", got=0).is_quiet()


def test_a_health_check_that_sends_nothing_is_quiet() -> None:
    story = Story().exchange("app")
    for second in range(20):
        story.at(second).closes("stranger", sent=0, got=0, connection=50 + second)
    story.is_quiet()


def test_unanswered_requests_for_versions_where_others_are_answered_are_quiet() -> None:
    story = Story()
    for number in range(5):
        story.at(number).exchange("stranger", "ApiVersions", Status.NO_RESPONSE, connection=number + 1)
        story.at(number + 0.1).closes("stranger", connection=number + 1, got=0)
    story.at(9).exchange("app", connection=60).is_quiet()


def test_a_connection_without_its_handshake_is_quiet() -> None:
    Story().exchange("app").tls("stranger").closes("stranger", opened=False, got=0).is_quiet()


def test_a_long_silent_tls_connection_is_quiet() -> None:
    Story().exchange("app").tls("stranger").at(20).closes("stranger", got=0, lived=20).is_quiet()


def test_the_end_of_the_capture_closes_nothing() -> None:
    Story().exchange("app").tls("stranger").closes("stranger", "end of capture", got=0).is_quiet()


def test_a_capture_without_the_broker_s_side_is_quiet() -> None:
    story = Story()
    for number in (1, 2, 3):
        story.exchange("stranger", "ApiVersions", Status.NO_RESPONSE, connection=number)
        story.closes("stranger", connection=number, got=0)
        story.trouble("stranger", Code.ONE_SIDED, connection=number)
    story.tells("WARN capture.health ")


def test_two_unanswered_first_requests_are_quiet() -> None:
    story = Story()
    for number in (1, 2):
        story.exchange("stranger", "ApiVersions", Status.NO_RESPONSE, connection=number)
        story.closes("stranger", connection=number, got=0)
    story.is_quiet()


# --- order ---

DESYNC = "ERROR proto.desync 1"


def test_a_response_to_no_request() -> None:
    story = Story().exchange("app").at(1).exchange("app", status=Status.ORPHAN_RESPONSE)
    story.at(2).exchange("app").at(3).closes("app").tells(DESYNC)


def test_one_response_to_no_request_at_the_end_is_quiet() -> None:
    """Its request may have been lost: no later packet of the client shows the gap."""
    story = Story().exchange("app").at(1).exchange("app", status=Status.ORPHAN_RESPONSE)
    story.at(2).closes("app").is_quiet()


def test_one_response_to_no_request_when_the_capture_ends_is_quiet() -> None:
    """The reader tells of the request's lost packet after the end; two of them are no accident."""
    story = Story().exchange("app").at(1).exchange("app", status=Status.ORPHAN_RESPONSE)
    story.at(2).closes("app", "end of capture").is_quiet()
    story = Story().exchange("app").at(1).exchange("app", status=Status.ORPHAN_RESPONSE, number=2)
    story.at(2).closes("app", "end of capture").tells(DESYNC)


def test_two_responses_in_the_wrong_order() -> None:
    story = Story().at(1).exchange("app", exchange=2).at(0.5).exchange("app", exchange=1, took=1)
    (finding,) = story.at(3).closes("app").tells(DESYNC)
    assert finding.evidence[0].note == "answered after the later request 2"


def test_a_request_that_was_passed_over() -> None:
    story = Story().at(1).exchange("app", exchange=2).at(2).exchange("app", status=Status.NO_RESPONSE, exchange=1)
    story.closes("app").tells(DESYNC)


def test_a_request_in_flight_when_the_connection_ends_is_quiet() -> None:
    Story().exchange("app").at(1).exchange("app", status=Status.NO_RESPONSE).closes("app").is_quiet()


def test_produce_without_acks_is_quiet() -> None:
    story = Story().exchange("app", "Produce", Status.NO_REPLY_EXPECTED).at(1).exchange("app")
    story.at(2).closes("app").is_quiet()


def test_a_connection_with_a_gap_is_the_capture_s_fault() -> None:
    story = Story().exchange("app").trouble("app", Code.GAP).exchange("app", status=Status.ORPHAN_RESPONSE)
    story.closes("app").tells("NOTE capture.health ")


def test_responses_without_any_request_are_those_of_a_capture_of_one_direction() -> None:
    story = Story().exchange("app", status=Status.ORPHAN_RESPONSE).at(1).exchange("app", status=Status.ORPHAN_RESPONSE)
    story.at(2).closes("app").is_quiet()


def test_a_connection_whose_beginning_is_missing_is_quiet() -> None:
    Story().exchange("app", status=Status.ORPHAN_RESPONSE).closes("app", opened=False).is_quiet()


def test_a_capture_that_begins_later_lacks_nothing() -> None:
    story = Story()
    for number in range(9):
        story.exchange("app", connection=number + 1).closes("app", opened=False, connection=number + 1)
    story.tells(at_least="INFO")
