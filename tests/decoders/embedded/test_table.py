"""Every bytes field that Kafka defines is classified: read, secret, or plain with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kproxy.decoders import secrets
from kproxy.decoders.embedded.table import ROWS
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.schema import Field, definitions
from tests.decoders.embedded.support import text
from tests.decoders.embedded.test_groups import ASSIGNED, ASSIGNMENT, SUBSCRIPTION

PLAIN = {
    "AlterUserScramCredentialsRequest salt": "random",
    "UserScramCredentialRecord salt": "random",
    "UserScramCredentialRecord serverKey": "withheld with its record",
    "UserScramCredentialRecord storedKey": "withheld with its record",
    "RemoteLogSegmentMetadataRecord customMetadata": "the storage plugin's own",
    "RemoteLogSegmentMetadataSnapshotRecord customMetadata": "the storage plugin's own",
    "RemoteLogSegmentMetadataUpdateRecord customMetadata": "the storage plugin's own",
}


def bytes_fields(fields: tuple[Field, ...], path: str = "") -> Iterator[str]:
    for field in fields:
        if field.type == "bytes":
            yield path + field.name
        if field.struct is not None:
            yield from bytes_fields(field.struct.fields, f"{path}{field.name}.")


def test_every_bytes_field_is_decided() -> None:
    read = {(row.message, row.path) for row in ROWS}
    met = set()
    for message in definitions().messages():
        for path in bytes_fields(message.fields):
            name = path.rpartition(".")[2]
            met.add((message.name, path))
            decided = (
                (message.name, path) in read
                or name in secrets.ALWAYS.get(message.name, ())
                or f"{message.name} {name}" in PLAIN
            )
            assert decided, (message.name, path)
    assert read - met == {("ConnectWorkerState", "allocation")}


def shown(name: str, version: int, values: dict[str, Any]) -> Any:
    message = definitions().message(name, version)
    assert message is not None
    return body_json(values, message, version)


def test_members_in_a_group_s_record() -> None:
    member = {"memberId": "m", "subscription": SUBSCRIPTION, "assignment": ASSIGNMENT}
    values = {"protocolType": "consumer", "protocol": "range", "members": [member]}
    (told,) = shown("GroupMetadataValue", 3, values)["members"]
    assert told["assignment"] == {"base64": text(ASSIGNMENT), "decoded": ASSIGNED}
    assert told["subscription"]["decoded"]["topics"] == ["orders"]


def test_a_classic_member_in_a_consumer_group_s_record() -> None:
    classic = {"sessionTimeoutMs": 1, "supportedProtocols": [{"name": "range", "metadata": SUBSCRIPTION}]}
    told = shown("ConsumerGroupMemberMetadataValue", 0, {"classicMemberMetadata": classic})
    assert told["classicMemberMetadata"]["supportedProtocols"][0]["metadata"]["decoded"]["topics"] == ["orders"]
    told = shown("ConsumerGroupMemberMetadataValue", 0, {"classicMemberMetadata": None})
    assert told["classicMemberMetadata"] is None
