"""Names of APIs and errors, present and former ones, against facts from Kafka's jars."""

from __future__ import annotations

import pytest

from kproxy.decoders.schema import apis, definitions, errors, history
from kproxy.decoders.schema.model import Versions


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Produce", 0),
        ("Send", 0),
        ("Fetch", 1),
        ("FETCH", 1),
        ("FetchRequest", 1),
        ("FetchResponse", 1),
        ("ListOffsets", 2),
        ("LIST_OFFSETS", 2),
        ("Offset", 2),
        ("Offsets", 2),
        ("TopicMetadata", 3),
        ("UPDATE_METADATA_KEY", 6),
        ("FindCoordinator", 10),
        ("find_coordinator", 10),
        ("ConsumerMetadata", 10),
        ("GroupCoordinator", 10),
        ("GROUP_COORDINATOR", 10),
        ("ElectPreferredLeaders", 43),
        ("AlterIsr", 56),
        ("ListClientMetricsResources", 74),
        ("ListConfigResources", 74),
        ("Nonsense", None),
        ("", None),
        ("Request", None),
    ],
)
def test_api_by_name(name: str, key: int | None) -> None:
    assert apis.by_name(name) == key


def test_every_api_is_found_by_every_name_it_has() -> None:
    for release in (None, "3.9"):
        for key, api in definitions(release).apis.items():
            assert {apis.by_name(name) for name in (api.name, api.name.upper(), *api.older_names)} == {key}
            assert definitions(release).api(key) is api
    assert definitions().api(999) is None


def test_first_and_last_releases() -> None:
    known = definitions().apis

    def first(release: str) -> set[int]:
        return {key for key, api in known.items() if api.releases[0] == release}

    assert first("0.8.0") == set(range(8))
    assert first("0.8.1") == {8, 9}
    assert first("0.8.2") == {10}
    assert first("0.9.0") == set(range(11, 17))
    assert first("0.10.0") == {17, 18}
    assert {key for key, api in known.items() if api.releases[1] is not None} == {4, 5, 6, 7}
    assert {key for key, api in known.items() if list(api.spoken) == ["3.9.2"]} == {4, 5, 6, 7}
    assert list(known) == sorted(history.APIS) == list(range(95))


def test_classes_of_apis() -> None:
    known = definitions().apis
    assert {api.klass for api in known.values()} == {
        *("core", "group", "transaction", "admin", "security"),
        *("control", "quorum", "share", "streams", "telemetry"),
    }
    assert [known[key].klass for key in (1, 4, 11, 28, 36, 52, 71, 78, 88)] == [
        *("core", "control", "group", "transaction", "security"),
        *("quorum", "telemetry", "share", "streams"),
    ]


def test_versions_and_stability_of_an_api_by_release() -> None:
    share_fetch, older = definitions().apis[78], definitions("3.9").apis[78]
    assert (share_fetch.stable, older.stable) == (True, False)
    assert older.unstable == Versions(0, 0)
    assert definitions().apis[1].spoken == {"4.4.0": Versions(4, 18), "3.9.2": Versions(0, 17)}
    unstable = {key for key, api in definitions().apis.items() if not api.stable}
    assert 22 in unstable
    for message in definitions().messages():
        assert not message.unstable or message.unstable.high in message.versions


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("NOT_LEADER_OR_FOLLOWER", 6),
        ("NotLeaderForPartition", 6),
        ("NOT_LEADER_FOR_PARTITION", 6),
        ("NotLeaderForPartitionException", 6),
        ("NotLeaderForPartitionCode", 6),
        ("NotLeaderForPartitionError", 6),
        ("InvalidMessage", 2),
        ("CorruptRecordException", 2),
        ("InvalidFetchSizeCode", 4),
        ("MessageSizeTooLarge", 10),
        ("RecordTooLargeException", 10),
        ("OffsetMetadataTooLarge", 12),
        ("StaleLeaderEpoch", 13),
        ("STALE_LEADER_EPOCH", 13),
        ("OffsetsLoadInProgress", 14),
        ("GROUP_LOAD_IN_PROGRESS", 14),
        ("ConsumerCoordinatorNotAvailable", 15),
        ("GroupCoordinatorNotAvailable", 15),
        ("NotCoordinatorForConsumer", 16),
        ("NOT_COORDINATOR_FOR_GROUP", 16),
        ("InvalidTopic", 17),
        ("MessageSetSizeTooLarge", 18),
        ("UNKNOWN", -1),
        ("UnknownServerException", -1),
        ("NoError", 0),
        ("NONE", 0),
        ("ProducerFencedException", 90),
        ("Nonsense", None),
        ("Error", None),
    ],
)
def test_error_by_name(name: str, code: int | None) -> None:
    assert errors.by_name(name) == code


def test_errors_are_those_of_the_enum() -> None:
    known = errors.all_errors()
    assert sorted(known) == list(range(-1, 137))
    for code, error in known.items():
        assert errors.name(code) == error.name
        assert errors.by_name(error.name) == code
    assert errors.name(12345) == "UNKNOWN(12345)"
    assert errors.name(-2) == "UNKNOWN(-2)"


def test_retriable() -> None:
    assert {code for code in range(-1, 20) if errors.retriable(code)} == {2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19}
    assert not errors.retriable(12345)


def test_errors_after_which_clients_ask_for_metadata() -> None:
    found = {code for code in range(-1, 137) if errors.refresh_metadata(code)}
    assert found == {3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103}
    assert all(errors.retriable(code) for code in found)
    assert not errors.refresh_metadata(12345)


def test_older_names() -> None:
    assert errors.older_names(6) == ("NOT_LEADER_FOR_PARTITION",)
    assert errors.older_names(7) == errors.older_names(12345) == ()


def test_a_code_that_meant_something_else() -> None:
    assert errors.name_in(4, 0, 13) == "STALE_LEADER_EPOCH"
    assert errors.name_in(4, 1, 13) == errors.name_in(0, 0, 13) == "NETWORK_EXCEPTION"
    assert errors.name_in(4, 0, 11) == "STALE_CONTROLLER_EPOCH"
