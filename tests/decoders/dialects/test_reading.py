"""Dialect files: every error, with its line."""

from __future__ import annotations

import pytest

from kproxy.decoders.definition_files import read
from kproxy.decoders.dialects import shipped, text_of
from kproxy.decoders.schema.dialect import Dialect
from kproxy.decoders.schema.jsontext import DefinitionError

GOOD = """\
{
  "dialect": "toy",
  "port": 7000,
  "asks": "client",
  "versions": "0-1",
  "switches": {"ids": true},
  "pairing": "correlationId",
  "requestHeader": [
    {"name": "Kind", "type": "int16", "role": "type"},
    {"name": "Release", "type": "int16", "role": "version"},
    {"name": "Id", "type": "int32", "role": "correlationId", "presentIf": {"switch": "ids"}}
  ],
  "responseHeader": [
    {"name": "Id", "type": "int32", "role": "correlationId", "presentIf": {"switch": "ids"}},
    {"name": "Failure", "type": "int16", "role": "error", "names": {"1": "NO_LUCK"}}
  ],
  "requests": [
    {"type": 0, "name": "Hello", "otherNames": ["Hi"], "oneWay": true, "turnsRoles": true, "request": [
      {"name": "Wide", "type": "bool"},
      {"name": "PatienceMs", "type": "int32"}
    ]},
    {"type": 1, "name": "Ask", "request": [
      {"name": "Level", "type": "int8", "names": {"1": "low"}},
      {"name": "Why", "type": "string", "versions": "1+", "presentIf": {"field": "Level", "is": 1}}
    ], "response": [
      {"name": "Found", "type": "[]Thing", "countType": "int16", "presentIf": {"field": "failure", "is": 0},
       "fields": [{"name": "Name", "type": "string"}]},
      {"name": "More", "type": "int64", "presentIf": {"message": "HelloRequest", "field": "wide", "is": true}}
    ]},
    {"type": 30000, "name": "Guest", "amongKafka": true, "request": [], "response": []}
  ],
  "timeRules": [
    {"rule": "asked", "request": "Ask", "after": "HelloRequest", "limit": 500},
    {"rule": "answered", "request": "Ask", "limit": {"message": "HelloRequest", "field": "patienceMs"}}
  ]
}
"""


def toy(text: str = GOOD) -> Dialect:
    return read([("toy.json", text)]).dialects["toy"]


def refused(*texts: str) -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        read((f"{number}.json", text) for number, text in enumerate(texts))
    return caught.value


def test_what_a_file_states() -> None:
    found = toy()
    assert (found.port, found.asks, found.by_order, list(found.requests)) == (7000, "client", False, [0, 1, 30000])
    assert found.requests[0].names == ("Hello", "Hi")
    assert found.requests[0].turns
    assert list(found.among_kafka) == [30000]
    assert found.request_header.roles == {"type": "kind", "version": "release", "correlationId": "id"}
    assert found.response_header.names == {1: "NO_LUCK"}
    assert [condition.field for condition in found.conditions] == ["wide"]
    assert {name: min(keys) for name, keys in read([("toy.json", GOOD)]).names.items()} == {
        "Hello": 0, "toy.Hello": 0, "Hi": 0, "toy.Hi": 0, "Ask": 1, "toy.Ask": 1, "Guest": 30000, "toy.Guest": 30000,
    }  # fmt: skip


def test_a_switch_takes_fields_away_and_pairing_by_them() -> None:
    found = toy(GOOD.replace('{"ids": true}', '{"ids": false}'))
    assert found.by_order
    assert [field.name for field in found.request_header.message.fields] == ["kind", "release"]


def test_those_that_come_with_kproxy_are_right() -> None:
    assert shipped() == ("coordinator-draft-1", "coordinator-draft-2")
    assert list(read((name, text_of(name)) for name in shipped()).dialects) == list(shipped())


CASES = [
    ('"dialect": "toy"', '"dialect": "to y"', 2, "'to y' is not a dialect's name"),
    ('"port": 7000', '"port": 70000', 3, "port must be a whole number from 1 to 65535"),
    ('"port": 7000,', "", 18, "Hello needs amongKafka, as the dialect has no port"),
    ('"asks": "client"', '"asks": "server"', 4, 'asks is "server", not one of client, broker, both'),
    ('"asks": "client",', "", 1, "a dialect has no 'asks'"),
    ('"versions": "0-1"', '"versions": "0+"', 5, "versions is 0+: a dialect has 1 to 256 versions"),
    ('"switches": {"ids": true}', '"switches": {"ids": 1}', 6, "the switch ids must be true or false"),
    ('"switches": {"ids": true}', '"switches": {}', 11, "there is no switch 'ids'"),
    ('"pairing": "correlationId"', '"pairing": "luck"', 7, 'pairing is "luck", not one of correlationId, order'),
    ('"type": "int32", "role": "correlationId", "presentIf": {"switch": "ids"}}\n  ],\n  "resp',
     '"type": "int32"}\n  ],\n  "resp', 7, "needs a field with that role in both headers"),
    ('"role": "type"', '"role": "kind"', 9, 'a role is "kind", not one of type'),
    (', "role": "type"', "", 8, 'no field of the request header has the role "type"'),
    ('"role": "version"', '"role": "type"', 10, "kind already has the role type"),
    ('"Release", "type": "int16"', '"Release", "type": "int64"', 10, "with the role version must be int8 or int16"),
    ('"Release", "type": "int16"', '"Release", "type": "bytes"', 10, "release is bytes: fields of headers must be"),
    ('"Failure", "type": "int16", "role": "error"', '"Failure", "type": "int16", "role": "type"', 13,
     "the role 'type' works in request headers only"),
    ('"names": {"1": "NO_LUCK"}', '"presentIf": {"field": "id", "is": 1}', 15, "may depend on switches only"),
    ('"names": {"1": "NO_LUCK"}', '"names": {"one": "NO_LUCK"}', 15, "'one' is not a whole number"),
    ('"names": {"1": "NO_LUCK"}', '"names": {"40000": "NO_LUCK"}', 15, "40000 does not fit int16"),
    ('"names": {"1": "NO_LUCK"}', '"tag": 1', 15, "a field has an unknown member 'tag'"),
    ('"type": 0, "name": "Hello"', '"type": 40000, "name": "Hello"', 18, "type must be a whole number from -32768"),
    ('"type": 0, "name": "Hello"', '"type": 1, "name": "Hello"', 22, "Hello already has type 1"),
    ('"name": "Ask", "request"', '"name": "hi", "request"', 22, "there are two requests hi"),
    ('"oneWay": true, ', "", 18, "Hello needs a 'response' or oneWay"),
    ('"name": "Ask", "request"', '"name": "Ask", "oneWay": true, "request"', 22, "is oneWay and has a 'response'"),
    ('"name": "Wide", "type": "bool"', '"name": "Wide", "type": "boolean"', 19, "unknown type 'boolean'"),
    ('"name": "Wide", "type": "bool"', '"name": "Wide", "type": "bool", "role": "error"', 19, "role works in"),
    ('"name": "Wide", "type": "bool"', '"name": "Wide", "type": "bool", "names": {}', 19, "only whole numbers"),
    ('"name": "Wide", "type": "bool"', '"name": "Wide", "type": "bool", "countType": "int16"', 19, "not an array"),
    ('"versions": "1+"', '"versions": "2+"', 24, "why has versions 2+, but its message or struct has 0-1"),
    ('{"field": "Level", "is": 1}', '{"field": "Depth", "is": 1}', 24, "no field depth comes before this one"),
    ('{"field": "Level", "is": 1}', '{"field": "Why", "is": "1"}', 24, "no field why comes before this one"),
    ('{"field": "Level", "is": 1}', '{"field": "Level", "is": true}', 24, "int8, so it cannot be True"),
    ('{"field": "Level", "is": 1}', '{"field": "Level"}', 24, "presentIf has no 'is'"),
    ('{"field": "Level", "is": 1}', '{"field": "Level", "is": 1.5}', 24, "'is' must be a string"),
    ('{"field": "Level", "is": 1}', "7", 24, "presentIf must be an object"),
    ('"countType": "int16"', '"countType": "int8"', 26, 'countType is "int8", not one of int16, int32'),
    ('{"name": "Name", "type": "string"}', '{"name": "Name", "type": "string", "presentIf": {"switch": "ids"}}', 27,
     "presentIf works for fields of the message itself; name is in a struct"),
    ('"message": "HelloRequest", "field": "wide"', '"message": "ByeRequest", "field": "wide"', 28, "no message ByeReq"),
    ('"message": "HelloRequest", "field": "wide"', '"message": "HelloRequest", "field": "deep"', 28, "no field deep"),
    ('"field": "wide", "is": true', '"field": "wide", "is": 1', 28, "wide has the type bool, so it cannot be 1"),
    ('"type": 30000', '"type": 3', 30, "an unused API key: 3 is Metadata"),
    ('"type": 30000', '"type": -3', 30, "an unused API key: -3 is negative"),
    ('"amongKafka": true', '"amongKafka": true, "turnsRoles": true', 30, "turnsRoles and amongKafka exclude"),
    ('{"name": "Kind", "type": "int16", "role": "type"},\n    {"name": "Release", "type": "int16", "role": "version"}',
     '{"name": "Release", "type": "int16", "role": "version"},\n    {"name": "Kind", "type": "int16", "role": "type"}',
     30, "the type must be the first field, an int16"),
    ('"rule": "asked"', '"rule": "begged"', 33, 'rule is "begged", not one of asked, answered, unanswered'),
    ('"request": "Ask", "after"', '"request": "Tell", "after"', 33, "there is no request Tell"),
    ('"after": "HelloRequest", ', "", 33, "needs 'after'"),
    ('"after": "HelloRequest"', '"after": "Hello"', 33, "there is no message Hello"),
    ('"limit": 500', '"limit": -1', 33, "limit must be a whole number"),
    ('"request": "Ask", "limit"', '"request": "Hello", "limit"', 34, "Hello is oneWay"),
    ('"field": "patienceMs"', '"field": "wide"', 34, "wide is not a whole number"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "reason"), CASES)
def test_what_is_wrong_is_refused_with_its_line(old: str, new: str, line: int, reason: str) -> None:
    assert GOOD.count(old) == 1
    error = refused(GOOD.replace(old, new))
    assert reason in error.message
    assert (error.file, error.line) == ("0.json", line), error


def test_two_dialects_do_not_claim_the_same_bytes() -> None:
    assert str(refused(GOOD, GOOD)) == "1.json:2: the dialect toy is defined twice"
    other = GOOD.replace('"toy"', '"other"')
    assert str(refused(GOOD, other)) == "1.json:3: port 7000 is already used by the dialect toy"
    other = other.replace("7000", "7001")
    assert str(refused(GOOD, other)) == "1.json:17: request type 30000 (amongKafka) is already used by the dialect toy"


def test_conditions_are_few() -> None:
    many = ", ".join(
        f'{{"name": "F{number}", "type": "int8", "presentIf": {{"field": "kind", "is": {number}}}}}'
        for number in range(5)
    )
    error = refused(GOOD.replace('"amongKafka": true, "request": []', f'"amongKafka": true, "request": [{many}]'))
    assert "GuestRequest depends on 5 conditions; at most 4 are allowed" in error.message
