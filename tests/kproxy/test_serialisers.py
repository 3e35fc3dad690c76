"""What Confluent's serialisers wrote with a schema registry, read back from the recording of a proxy."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import (
    IntegerSerializer,
    MessageField,
    SerializationContext,
)

from kproxy.cli.commands.export import command
from kproxy.runs.demo import start_cluster
from tests.kproxy.support import relay
from tests.support.patience import SECONDS
from tests.support.proto import classes, compiled
from tests.support.registry import Running, registry

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("own_places")]

ADDRESS = {
    "type": "record", "name": "Address", "namespace": "shop",
    "fields": [{"name": "street", "type": "string"}, {"name": "zip", "type": ["null", "string"]}],
}  # fmt: skip
ORDER = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "to", "type": "shop.Address"},
        {"name": "amounts", "type": {"type": "array", "items": "double"}},
        {"name": "raw", "type": "bytes"},
    ],
}  # fmt: skip
AVRO = {"id": 1 << 60, "to": {"street": "Main", "zip": None}, "amounts": [1.5, -2.0], "raw": b"\0\xff"}
AVRO_SHOWN = {**AVRO, "raw": {"base64": "AP8="}}

PROTO = {
    "shop/item.proto": """
        syntax = "proto3"; package shop;
        message Item { string name = 1; sint64 count = 2; }
    """,
    "shop/basket.proto": """
        syntax = "proto3"; package shop;
        import "shop/item.proto"; import "google/protobuf/timestamp.proto";
        message Unused { int32 x = 1; }
        message Basket {
          enum State { OPEN = 0; PAID = 1; }
          message Line { Item item = 1; bytes tag = 2; }
          repeated Line lines = 1; google.protobuf.Timestamp at = 2; State state = 3; map<string, int64> totals = 4;
        }
    """,
}
LINE_SHOWN = {"item": {"name": "tea", "count": -3}, "tag": {"base64": "/w=="}}
BASKET_SHOWN = {"lines": [LINE_SHOWN], "at": "1970-01-01T00:00:01Z", "state": "PAID", "totals": {"a": 1 << 40}}

PERSON = {
    "$schema": "http://json-schema.org/draft-07/schema#", "title": "Person", "type": "object",
    "properties": {"name": {"type": "string"}, "home": {"$ref": "home.json"}}, "required": ["name"],
}  # fmt: skip
HOME = {"title": "Home", "type": "object", "properties": {"town": {"type": "string"}}}
PERSON_SHOWN = {"name": "Ann", "home": {"town": "Ulm"}}

Headers = list[tuple[str, str | bytes | None]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    keeper, bootstrap = start_cluster()
    yield bootstrap
    del keeper


@pytest.fixture
def schemas() -> Iterator[Running]:
    with registry() as running:
        yield running


class Topic:
    """Records for a topic, serialised as an application would."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: list[tuple[bytes, bytes, Headers]] = []

    def add(self, serializer: Any, value: Any) -> None:
        headers: Headers = []
        data = serializer(value, SerializationContext(self.name, MessageField.VALUE, headers))
        key = IntegerSerializer()(len(self.records))
        assert key is not None
        self.records.append((key, data, headers))


def recorded(topic: Topic, cluster: str, directory: Path) -> Path:
    """The recording of a proxy through which the records are produced."""
    recording = directory / "recording.pcapng"
    with relay(cluster, record_to=recording) as process:
        producer = Producer({"bootstrap.servers": process.bootstrap, "log_level": 0})
        for key, value, headers in topic.records:
            producer.produce(topic.name, value, key, partition=0, headers=headers)
        assert producer.flush(SECONDS) == 0
    return recording


def exported(recording: Path, *arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(command, [str(recording), "--format", "records", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


def avro_serializer(client: SchemaRegistryClient, **options: Any) -> Any:
    client.register_schema("address", Schema(json.dumps(ADDRESS), "AVRO"))
    order = Schema(json.dumps(ORDER), "AVRO", [SchemaReference("shop.Address", "address", 1)])
    return AvroSerializer(client, order, conf={name.replace("_", "."): value for name, value in options.items()})


def protobuf_values(directory: Path) -> tuple[Any, Any]:
    basket, line = classes(compiled(directory, PROTO), "shop.Basket", "shop.Basket.Line")
    tea = line(tag=b"\xff")
    tea.item.name, tea.item.count = "tea", -3
    whole = basket(lines=[], state=1)
    whole.lines.add().ParseFromString(tea.SerializeToString())
    whole.at.seconds = 1
    whole.totals["a"] = 1 << 40
    return whole, tea


def json_serializer(client: SchemaRegistryClient, **options: Any) -> Any:
    client.register_schema("home", Schema(json.dumps(HOME), "JSON"))
    person = Schema(json.dumps(PERSON), "JSON", [SchemaReference("home.json", "home", 1)])
    return JSONSerializer(person, client, conf={name.replace("_", "."): value for name, value in options.items()})


@pytest.fixture
def topic(schemas: Running, tmp_path: Path) -> Topic:
    """A record of each serialiser, with the schema's id in front and with its GUID in a header."""
    topic = Topic("mixed")
    whole, tea = protobuf_values(tmp_path)
    with SchemaRegistryClient({"url": schemas.url}) as client:
        for options in ({}, {"schema_id_serializer": header_schema_id_serializer}):
            conf = {name.replace("_", "."): value for name, value in options.items()}
            topic.add(avro_serializer(client, **options), AVRO)
            topic.add(ProtobufSerializer(type(whole), client, conf), whole)
            topic.add(ProtobufSerializer(type(tea), client, conf), tea)
            topic.add(json_serializer(client, **options), PERSON_SHOWN)
    return topic


def test_every_serialiser_s_values_are_read_by_the_registry_s_schemas(
    topic: Topic, schemas: Running, cluster: str, tmp_path: Path
) -> None:
    recording = recorded(topic, cluster, tmp_path)
    lines = exported(recording, "--registry", schemas.url)
    values = [line["value"] for line in lines]
    assert [value.get("decoded", value) for value in values] == [AVRO_SHOWN, BASKET_SHOWN, LINE_SHOWN, PERSON_SHOWN] * 2
    assert [value["format"] for value in values] == ["avro", "protobuf", "protobuf", "jsonschema"] * 2
    assert [base64.b64decode(value["base64"]) for value in values] == [value for _, value, _ in topic.records]
    assert all("error" not in value for value in values)
    assert all(isinstance(value["schemaId"], int) for value in values[:4])
    assert all(len(value["schemaId"]) == 36 for value in values[4:])
    assert all(value["reason"].startswith("schema ") for value in values)
    assert [line["key"]["decoded"] for line in lines] == list(range(8))


def test_a_second_run_has_the_schemas_still(topic: Topic, schemas: Running, cluster: str, tmp_path: Path) -> None:
    recording = recorded(topic, cluster, tmp_path)
    first = exported(recording, "--registry", schemas.url)
    schemas.state.asked.clear()
    schemas.state.schemas.clear()
    assert exported(recording, "--registry", schemas.url) == first
    assert not schemas.state.asked


def test_without_the_registry_bytes_and_the_reason_are_shown(topic: Topic, cluster: str, tmp_path: Path) -> None:
    recording = recorded(topic, cluster, tmp_path)
    with registry() as gone:
        url = gone.url
    result = CliRunner().invoke(command, [str(recording), "--format", "records", "--registry", url])
    assert result.exit_code == 0
    values = [json.loads(line)["value"] for line in result.stdout.splitlines()]
    reason = "registry not reachable: connection refused"
    # JSON whose schema's id is in a header reads without it.
    assert values[-1]["decoded"] == PERSON_SHOWN
    assert reason in values[-1]["reason"]
    assert [value["error"] for value in values[:-1]] == [reason] * 7
    assert [base64.b64decode(value["base64"]) for value in values] == [value for _, value, _ in topic.records]
    assert result.stderr.count("registry not reachable") == 1


def test_a_chosen_viewer_says_why_it_cannot(topic: Topic, schemas: Running, cluster: str, tmp_path: Path) -> None:
    recording = recorded(topic, cluster, tmp_path)
    schemas.state.schemas.clear()
    values = [line["value"] for line in exported(recording, "--registry", schemas.url, "--view", "mixed.value=avro")]
    assert values[0]["error"].startswith("avro: schema ")
    assert values[0]["error"].endswith(" not found (404)")
    assert "decoded" not in values[0]
    assert "reason" not in values[0]


def test_without_any_option_payloads_are_as_they_always_were(topic: Topic, cluster: str, tmp_path: Path) -> None:
    values = [line["value"] for line in exported(recorded(topic, cluster, tmp_path))]
    assert [value.keys() for value in values[:3]] == [{"base64"}] * 3
    assert json.loads(values[7]) == PERSON_SHOWN
