"""The updater and the check, on made-up releases: no Maven, no Java."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kproxy.decoders.schema import definitions, store
from kproxy.decoders.schema.errors import all_errors
from tools.schema import check, facts, jars, update
from tools.schema.layout import layout


def definition(name: str = "FetchRequest", versions: str = "0-2", **more: Any) -> dict[str, Any]:
    kind = "response" if name.endswith("Response") else "request"
    fields = [{"name": "Who", "type": "string", "versions": "0+", "about": "Prose."}]
    return {
        "apiKey": 1,
        "type": kind,
        "name": name,
        "validVersions": versions,
        "flexibleVersions": "2+",
        "listeners": ["broker"],
        "fields": fields,
    } | more


def rows(newest: dict[str, Any] | None, older: dict[str, Any]) -> list[tuple[str, str]]:
    ruling = facts.compact(newest, "2.0", unstable=False) if newest else None
    kept = update.beside(ruling, facts.compact(older, "1.0", unstable=False))
    return [(row["versions"], row["because"]) for row in kept]


def field(**more: Any) -> list[dict[str, Any]]:
    return [{"name": "Who", "type": "string", "versions": "0+"} | more]


def test_comments_are_dropped_and_strings_kept() -> None:
    assert jars.read_commented_json('// x\n{"a": "b // c", // d "e"\n "f": "\\"//"}') == {"a": "b // c", "f": '"//'}
    assert jars.read_commented_json('/** x\n " // */{"a": "/* b */"}') == {"a": "/* b */"}


def test_facts_leave_out_prose_and_what_is_usual() -> None:
    made = definition(fields=field(type="[]int32", tag="0", taggedVersions="2+", default="0x7fffffff", about="Prose."))
    row = facts.compact(made, "1.0", unstable=True)
    assert row["unstable"] == "2"
    assert row["fields"] == [
        {"name": "who", "type": "int32", "array": True, "tagged": "2+", "tag": 0, "default": "0x7fffffff"}
    ]
    assert facts.compact(definition(fields=field(type="int32", default="0x7fffffff")), "1.0", unstable=False)[
        "fields"
    ] == [{"name": "who", "type": "int32", "default": 0x7FFFFFFF}]


@pytest.mark.parametrize(
    ("newest", "older", "kept"),
    [
        pytest.param(definition(), definition(), [], id="same"),
        pytest.param(definition(), definition(listeners=["zkBroker"]), [], id="listeners are no layout"),
        pytest.param(definition(versions="1-3"), definition(), [("0", "gone")], id="dropped"),
        pytest.param(definition(versions="none"), definition(), [("0-2", "gone")], id="all dropped"),
        pytest.param(None, definition(), [("0-2", "gone")], id="unknown"),
        pytest.param(definition(fields=field(name="Whom")), definition(), [("0-2", "layout")], id="renamed field"),
        pytest.param(
            definition(fields=field(nullableVersions="1+")), definition(), [("1-2", "layout")], id="nullable since"
        ),
        pytest.param(
            definition(fields=field(versions="0-1")), definition(), [("2", "layout")], id="a field only at first"
        ),
        pytest.param(definition(flexibleVersions="1+"), definition(), [("1", "layout")], id="flexible"),
        pytest.param(
            definition(versions="1-2", fields=field(name="Whom")),
            definition(),
            [("0", "gone"), ("1-2", "layout")],
            id="dropped and renamed",
        ),
        pytest.param(
            definition(fields=field(default="x", tag=0, taggedVersions="2+")),
            definition(fields=field(default="y", tag=0, taggedVersions="2+")),
            [("2", "layout")],
            id="default of a tagged field",
        ),
        pytest.param(definition("GetRequest"), definition(), [("0-2", "name")], id="renamed message"),
    ],
)
def test_what_is_kept_beside_the_newest(
    newest: dict[str, Any] | None, older: dict[str, Any], kept: list[tuple[str, str]]
) -> None:
    assert rows(newest, older) == kept


def test_a_cut_definition_holds_what_its_versions_need() -> None:
    shared = [
        {"name": "Inner", "versions": "0+", "fields": field()},
        {"name": "Outer", "versions": "0+", "fields": field(type="Inner")},
        {"name": "Other", "versions": "0+", "fields": field()},
    ]
    made = definition(
        fields=[*field(type="[]Outer"), *field(name="Late", versions="1+", type="Other")], commonStructs=shared
    )
    from_versions = facts.compact(made, "1.0", unstable=True)
    (cut,) = update.beside(
        facts.compact(definition(versions="1-2", fields=made["fields"], commonStructs=shared), "2.0", unstable=False),
        from_versions,
    )
    assert [each["name"] for each in cut["fields"]] == ["who"]
    assert [each["name"] for each in cut["structs"]] == ["Inner", "Outer"]
    assert "unstable" not in cut
    assert layout(facts.parsed(cut), 0) == layout(facts.parsed(from_versions), 0)


def release_of_our_data() -> jars.Release:
    """A release that has exactly what our data say of the newest."""
    ours = definitions()
    api_facts = {}
    for key, api in ours.apis.items():
        spoken = api.spoken.get(ours.release)
        versions = [] if spoken is None else [[version, 1, 0] for version in range(spoken.low, spoken.high + 1)]
        api_facts[key] = {"name": api.name, "unstable": not api.stable and spoken is not None, "versions": versions}
    errors = {code: error._asdict() for code, error in all_errors().items()}
    return jars.Release("9.9.9", {}, api_facts, errors)


def test_check_finds_nothing_in_our_own_data() -> None:
    assert list(check.differences(release_of_our_data(), definitions())) == []


def test_check_says_what_is_new() -> None:
    release = release_of_our_data()
    release.apis[200] = {"name": "Teleport", "unstable": False, "versions": [[0, 2, 1], [1, 2, 1]]}
    release.apis[1]["versions"].append([19, 2, 1])
    release.apis[3]["name"] = "Topics"
    release.apis[18]["unstable"] = True
    release.apis[20]["versions"] = []
    release.errors[500] = {"name": "LOST", "retriable": False, "refresh_metadata": False}
    release.errors[3] = {"name": "WHICH_TOPIC", "retriable": False, "refresh_metadata": False}
    release.errors[7] = {"name": "REQUEST_TIMED_OUT", "retriable": True, "refresh_metadata": True}
    release.definitions["FetchRequest"] = definition(versions="4-4")
    release.definitions["Sealed"] = definition("Sealed", "0", type="data") | {"fields": []}
    del release.definitions["Sealed"]["apiKey"]
    metadata = {"type": "metadata", "flexibleVersions": "0+", "fields": []}
    release.records["__cluster_metadata"] = [
        metadata | {"name": "NoOpRecord", "apiKey": 20, "validVersions": "0-1"},
        metadata | {"name": "AbortTransactionRecord", "apiKey": 25, "validVersions": "0"},
        metadata | {"name": "NewRecord", "apiKey": 99, "validVersions": "0"},
    ]
    assert list(check.differences(release, definitions())) == [
        "API 1 Fetch now has v4-19, we know v4-18",
        "API 3 Metadata is now called Topics",
        "API 18 ApiVersions: the latest version is now unstable",
        "API 20 DeleteTopics now has no versions, we know v1-6",
        "new API 200 Teleport v0-1",
        "FetchRequest v4 has another layout or other names",
        "new message Sealed v0",
        "NoOpRecord now has v0-1, we know v0",
        "AbortTransactionRecord v0 has another layout or other names",
        "new message NewRecord v0",
        "error 3 is now WHICH_TOPIC, not retriable",
        "error 7 is now REQUEST_TIMED_OUT, retriable, ask for metadata",
        "new error 500 LOST",
    ]


def test_the_updater_asks_for_a_row_of_a_new_api() -> None:
    release = jars.Release("9.9.9", {}, {200: {"name": "Teleport", "unstable": False, "versions": []}}, {})
    assert list(update.check([release])) == [
        "API 200 Teleport of 9.9.9 has no row in decoders/schema/history.py",
    ]


def test_data_files_are_lines_that_say_why_they_are_kept() -> None:
    newest, older = store.releases()
    kept = store.definitions()
    assert {each.because for each in kept[newest]} == {None}
    assert {each.because for each in kept[older]} == {"gone", "layout", "name"}
    assert {each.release for each in kept[older]} == {older}


def test_a_field_without_versions_has_those_in_which_it_is_tagged() -> None:
    late = field(type="int32", tag=0, taggedVersions="2+")
    del late[0]["versions"]
    (row,) = facts.compact(definition(fields=late), "1.0", unstable=False)["fields"]
    assert (row["versions"], row["tagged"]) == ("2+", "2+")


def test_what_kafka_s_generator_takes_for_nothing_is_left_out() -> None:
    (row,) = facts.compact(definition(fields=field(default=None, ignorable="false")), "1.0", unstable=False)["fields"]
    assert row == {"name": "who", "type": "string"}


def record(kind: str, name: str, versions: str = "0", **more: Any) -> dict[str, Any]:
    return {"type": kind, "name": name, "validVersions": versions, "flexibleVersions": "none", "fields": field()} | more


def internal_rows(newest: list[dict[str, Any]], older: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is kept of an older release's records of one topic."""
    releases = [jars.Release(version, {}, {}, {}, {"t": kept}) for version, kept in (("2.0", newest), ("1.0", older))]
    text = update.internal_files(releases)["internal-1.0.jsonl"]
    return [json.loads(line) for line in text.splitlines()]


def test_keys_that_were_plain_data_have_a_record_type_for_each_version() -> None:
    older = [
        record("data", "CommitKey", "0-1", fields=[*field(versions="0"), *field(name="Whom", versions="1")]),
        record("data", "CommitValue", "0-3"),
        record("data", "ProducerSnapshot", "1"),
    ]
    kept = internal_rows([], older)
    assert [(row["kind"], row["record"], row["versions"], row["because"]) for row in kept] == [
        ("coordinator-key", 0, "0", "gone"),
        ("coordinator-key", 1, "0", "gone"),
        *(("coordinator-value", 1, str(version), "gone") for version in range(4)),
    ]
    assert [row["fields"][0]["name"] for row in kept[:2]] == ["who", "whom"]


def test_a_record_is_kept_only_where_its_bytes_differ() -> None:
    tag = {"name": "Late", "type": "int32", "versions": "0+", "taggedVersions": "0+", "tag": 0}
    flexible: dict[str, Any] = {"apiKey": 3, "flexibleVersions": "0+"}
    inner = {"name": "Inner", "type": "[]Thing", "versions": "0+"}
    older = record("metadata", "Old", **flexible, fields=[inner | {"fields": field()}])
    same = record("metadata", "New", **flexible, fields=[inner | {"fields": [*field(), tag]}, tag])
    other = record("metadata", "New", **flexible, fields=[inner | {"fields": field(type="int32")}])
    assert internal_rows([same], [older]) == []
    (row,) = internal_rows([other], [older])
    assert (row["name"], row["topic"], row["record"], row["because"]) == ("Old", "t", 3, "layout")


def test_what_a_release_serves_deprecates_and_may_serve() -> None:
    made = [
        definition(versions="1-3", deprecatedVersions="1-2", latestVersionUnstable=True),
        definition("FetchResponse", versions="1-3"),
        definition("StopReplicaRequest", versions="none", apiKey=5),
        definition("JoinGroupRequest", versions="0-2", apiKey=11),
    ]
    release = jars.Release("2.0", {one["name"]: one for one in made}, {}, {})
    assert list(update.served_facts([release])) == [
        {
            "release": "2.0",
            "versions": {"1": "1-3", "11": "0-2"},
            "deprecated": {"1": "1-2"},
            "unstable": {"1": "3"},
        }
    ]
