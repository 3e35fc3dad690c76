from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kproxy.decoders import secrets
from kproxy.decoders.frame_tree import frame_tree
from kproxy.decoders.jsonform import body_json
from kproxy.decoders.schema import definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.view import View
from kproxy.decoders.writer import write
from tests.decoders.support import RELEASES, decoded, eyes

HIDDEN = {"redacted": True, "sizeInBytes": 6}


def shown(name: str, version: int, values: dict[str, Any], *, show_secrets: bool = False) -> Any:
    message = definitions().message(name, version)
    assert message is not None
    return body_json(values, message, version, View(show_secrets=show_secrets))


@pytest.mark.parametrize(
    ("name", "version", "values", "path"),
    [
        ("SaslAuthenticateRequest", 2, {"authBytes": b"secret"}, ["authBytes"]),
        ("SaslAuthenticateResponse", 2, {"authBytes": b"secret"}, ["authBytes"]),
        ("EnvelopeRequest", 0, {"requestData": b"secret"}, ["requestData"]),
        ("EnvelopeResponse", 0, {"responseData": b"secret"}, ["responseData"]),
        ("CreateDelegationTokenResponse", 3, {"hmac": b"secret"}, ["hmac"]),
        ("RenewDelegationTokenRequest", 2, {"hmac": b"secret"}, ["hmac"]),
        ("ExpireDelegationTokenRequest", 2, {"hmac": b"secret"}, ["hmac"]),
        ("DescribeDelegationTokenResponse", 3, {"tokens": [{"hmac": b"secret"}]}, ["tokens", 0, "hmac"]),
        (
            "AlterUserScramCredentialsRequest",
            0,
            {"upsertions": [{"saltedPassword": b"secret"}]},
            ["upsertions", 0, "saltedPassword"],
        ),
        ("UserScramCredentialRecord", 0, {"salt": b"secret"}, ["salt"]),
        ("UserScramCredentialRecord", 0, {"storedKey": b"secret"}, ["storedKey"]),
        ("UserScramCredentialRecord", 0, {"serverKey": b"secret"}, ["serverKey"]),
        ("ConfigRecord", 0, {"name": "ssl.keystore.password", "value": "secret"}, ["value"]),
        (
            "DescribeConfigsResponse",
            4,
            {"results": [{"configs": [{"name": "x", "value": "sécre", "isSensitive": True}]}]},
            ["results", 0, "configs", 0, "value"],
        ),
        (
            "DescribeConfigsResponse",
            4,
            {"results": [{"configs": [{"value": None, "isSensitive": True, "synonyms": [{"value": "secret"}]}]}]},
            ["results", 0, "configs", 0, "synonyms", 0, "value"],
        ),
        (
            "CreateTopicsResponse",
            7,
            {"topics": [{"configs": [{"name": "x", "value": "secret", "isSensitive": True}]}]},
            ["topics", 0, "configs", 0, "value"],
        ),
        (
            "AlterConfigsRequest",
            2,
            {"resources": [{"configs": [{"name": "ssl.key.password", "value": "secret"}]}]},
            ["resources", 0, "configs", 0, "value"],
        ),
        (
            "IncrementalAlterConfigsRequest",
            1,
            {"resources": [{"configs": [{"name": "a.SASL.jaas.config", "value": "secret"}]}]},
            ["resources", 0, "configs", 0, "value"],
        ),
        (
            "CreateTopicsRequest",
            7,
            {"topics": [{"configs": [{"name": "ssl.keystore.certificate.chain", "value": "secret"}]}]},
            ["topics", 0, "configs", 0, "value"],
        ),
    ],
)
def test_secrets_are_withheld_unless_asked_for(
    name: str, version: int, values: dict[str, Any], path: list[str | int]
) -> None:
    message = definitions().message(name, version)
    assert message is not None
    data = write(message, version, values)
    from kproxy.decoders.compiler import decoder

    read = decoder(message, version)(data, 0, len(data))[0]

    def at(body: Any) -> Any:
        for step in path:
            body = body[step]
        return body

    assert at(body_json(read, message, version)) == HIDDEN
    assert at(body_json(read, message, version, View(show_secrets=True))) in {"secret", "sécre", "c2VjcmV0"}
    assert at(read) in ("secret", "sécre", b"secret")


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("ssl.keystore.password", True),
        ("sasl.oauthbearer.client.secret", True),
        ("ssl.keystore.key", True),
        ("listener.name.x.sasl.jaas.config", True),
        ("retention.ms", False),
        ("password.encoder.keyfactory.algorithm", False),
        (None, False),
    ],
)
def test_names_of_configs_that_hold_secrets(name: str | None, secret: bool) -> None:
    assert secrets.is_secret_config(name) is secret


def test_null_stays_null_and_other_configs_stay_readable() -> None:
    values = {
        "resources": [{"configs": [{"name": "a.password", "value": None}, {"name": "retention.ms", "value": "5"}]}]
    }
    configs = shown("AlterConfigsRequest", 2, values)["resources"][0]["configs"]
    assert [config["value"] for config in configs] == [None, "5"]


@pytest.mark.parametrize("release", RELEASES)
def test_no_secret_of_a_golden_message_is_in_its_json(release: str) -> None:
    """Secrets are taken from the tree's marks, which are independent of the converter to JSON."""
    count = 0
    for one, read in decoded(release):
        if one.api_key not in secrets.API_KEYS:
            continue
        side = Side.CLIENT if one.kind == "request" else Side.BROKER
        nodes = frame_tree(one.frame, side, one.api_key, one.api_version, eyes(release)).walk()
        assert read.message is not None
        text = json.dumps(body_json(read.body or {}, read.message, read.version), ensure_ascii=False)
        hidden = [node for node in nodes if node.secret and not node.null]
        assert text.count('{"redacted": true') == len(hidden), one
        for node in hidden:
            value = node.value if isinstance(node.value, str) else base64.b64encode(node.value).decode()
            if len(value) > 6:
                assert value not in text, one
        count += len(hidden)
    assert count > 10


def test_only_these_apis_can_carry_secrets() -> None:
    named = {*secrets.ALWAYS, *secrets.BY_FLAG, *secrets.BY_NAME}
    carriers = [message for message in definitions().messages() if message.name in named]
    assert {message.name for message in carriers} == named
    assert {message.api_key for message in carriers if message.topic is None} <= secrets.API_KEYS
    assert {message.topic for message in carriers} - {None} <= secrets.TOPICS
