"""Definitions in Kafka's form: what is read, and every error, with its line."""

from __future__ import annotations

import pytest

from kproxy.decoders.definition_files import read
from kproxy.decoders.schema.jsontext import DefinitionError
from kproxy.decoders.schema.lookup import Definitions
from kproxy.decoders.schema.model import Versions
from kproxy.decoders.writer import write

GOOD = """\
// A vendor's.
{
  "apiKey": 10000,
  "type": "request",
  "listeners": ["broker"],
  "name": "VendorThingRequest",
  "validVersions": "0-2",
  "flexibleVersions": "2+",
  "fields": [
    { "name": "TenantId", "type": "string", "versions": "0+", "entityType": "groupId",
      "about": "Whose." },
    { "name": "Limit", "type": "int32", "versions": "1+", "default": "-1", "ignorable": true },
    { "name": "Note", "type": "string", "versions": "2+", "taggedVersions": "2+", "tag": 0,
      "nullableVersions": "2+", "default": "null" },
    { "name": "Things", "type": "[]Thing", "versions": "0+" }
  ],
  "commonStructs": [
    { "name": "Thing", "versions": "0+", "fields": [
      { "name": "Id", "type": "int64", "versions": "0+", "mapKey": true }
    ]}
  ]
}
"""
RESPONSE = """\
{
  "apiKey": 10000, "type": "response", "name": "VendorThingResponse",
  "validVersions": "0-2", "flexibleVersions": "2+",
  "fields": [ { "name": "ErrorCode", "type": "int16", "versions": "0+" } ]
}
"""


def refused(*texts: str) -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        read((f"{number}.json", text) for number, text in enumerate(texts))
    return caught.value


def test_a_pair_of_definitions() -> None:
    additions = read([("a", GOOD), ("b", RESPONSE)])
    known = Definitions("4.4.0", additions)
    request, response = known.request(10000, 2), known.response(10000, 0)
    assert request is not None
    assert response is not None
    assert [field.name for field in request.fields] == ["tenantId", "limit", "note", "things"]
    assert [field.default for field in request.fields] == [None, -1, "null", None]
    assert known.versions(10000) == Versions(0, 2)
    assert [known.request_header_version(10000, version) for version in (1, 2)] == [1, 2]
    assert [known.response_header_version(10000, version) for version in (1, 2)] == [0, 1]
    api = known.api(10000)
    assert api is not None
    assert (api.name, api.klass, api.listeners) == ("VendorThing", "given", ("broker",))
    assert additions.names == {"VendorThing": frozenset({10000})}
    things = b"\x00\x01a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x05"
    assert write(request, 0, {"tenantId": "a", "things": [{"id": 5}]}) == things


def test_kafkas_own_are_what_they_were() -> None:
    known, plain = Definitions("4.4.0", read([("a", GOOD), ("b", RESPONSE)])), Definitions("4.4.0")
    assert known.pairs("4.4.0") == plain.pairs("4.4.0")
    assert set(known.pairs()) - set(plain.pairs()) == {(10000, 0), (10000, 1), (10000, 2)}


CASES = [
    ('"type": "request"', '"type": "reqest"', 4, "a message's type is \"reqest\", not one of request, response, data"),
    ('"apiKey": 10000', '"apiKey": 3', 3, "API key 3 belongs to Kafka's Metadata"),
    ('"apiKey": 10000', '"apiKey": 70000', 3, "apiKey must be a whole number from 0 to 32767"),
    ('"apiKey": 10000', '"apiKey": "10000"', 3, "apiKey must be a whole number from 0 to 32767"),
    ('"apiKey": 10000,', "", 2, "VendorThingRequest has no 'apiKey'"),
    ('"name": "VendorThingRequest"', '"name": "VendorThing"', 6, "the name of a request must end in Request"),
    ('"name": "VendorThingRequest"', '"name": "FetchRequest"', 6, "FetchRequest is the name of a message of Kafka"),
    ('"name": "VendorThingRequest"', '"name": "Vendor Request"', 6, "is not a name"),
    ('"name": "VendorThingRequest",', "", 2, "a message has no 'name'"),
    ('"validVersions": "0-2"', '"validVersions": "0+"', 7, "validVersions of VendorThingRequest is 0+: it"),
    ('"validVersions": "0-2"', '"validVersions": "none"', 7, "is none: it needs a first and a last version"),
    ('"validVersions": "0-2"', '"validVersions": "2-0"', 7, "'2-0': there are no such versions"),
    ('"validVersions": "0-2"', '"validVersions": "-1"', 7, 'is \'-1\', not "3", "3+"'),
    ('"validVersions": "0-2"', '"validVersions": "0-3"', 7, "has versions 0-3, but its response 0-2"),
    ('"flexibleVersions": "2+",', "", 2, "a message has no 'flexibleVersions'"),
    ('"fields": [\n    { "name": "T', '"feilds": [\n    { "name": "T', 9, "a message has an unknown member 'feilds'"),
    ('"listeners": ["broker"]', '"listeners": "broker"', 5, "listeners must be an array"),
    ('"TenantId", "type": "string"', '"TenantId", "type": "text"', 10, "unknown type 'text'"),
    ('"TenantId", "type": "string"', '"TenantId", "type": "[]Tenant"', 10, "unknown type 'Tenant': it needs fields"),
    ('"TenantId", "type": "string"', '"TenantId", "type": 3', 10, "a field's type must be a string"),
    ('"TenantId", "type": "string", "versions": "0+"', '"TenantId", "type": "string"', 10, "has no 'versions'"),
    ('"type": "int32", "versions": "1+"', '"type": "int32", "versions": "3+"', 12, "limit has versions 3+"),
    ('"type": "int32", "versions": "1+"', '"type": "int32", "versions": "none"', 12, "limit has versions none"),
    ('"name": "Limit"', '"name": "tenantId"', 12, "VendorThingRequest has two fields tenantId"),
    ('"default": "-1"', '"default": "many"', 12, "'many' is not a default for limit of type int32"),
    ('"default": "-1"', '"default": "2147483648"', 12, "is not a default for limit"),
    ('"default": "-1"', '"default": "null"', 12, "the default of limit is null, but the field is not nullable"),
    ('"ignorable": true', '"ignorable": "yes"', 12, "ignorable must be true or false"),
    ('"ignorable": true', '"nullableVersions": "1+"', 12, "limit is int32, which cannot be null"),
    ('"ignorable": true', '"tag": 0, "taggedVersions": "1+"', 12, "tagged in versions 1+, which are not all flexible"),
    ('"ignorable": true', '"tag": 0, "taggedVersions": "2+"', 13, "VendorThingRequest has two fields with tag 0"),
    ('"taggedVersions": "2+", "tag": 0', '"tag": 0', 13, "note has no 'taggedVersions'"),
    ('"taggedVersions": "2+", "tag": 0', '"taggedVersions": "2+"', 13, "note has no 'tag'"),
    ('"taggedVersions": "2+", "tag": 0', '"taggedVersions": "2+", "tag": -1', 13, "a tag must be a whole number"),
    ('"type": "[]Thing"', '"type": "[]Thing", "fields": []', 15, "Thing is a common struct"),
    ('"type": "[]Thing"', '"type": "[]Other", "fields": []', 15, "the struct Other has no fields"),
    ('"type": "[]Thing"', '"type": "int8", "fields": []', 15, "the type int8 cannot have fields"),
    ('"name": "Thing", "versions"', '"name": "int8", "versions"', 18, "the name int8 is already taken"),
    ('"name": "Id", "type": "int64"', '"name": "Id", "type": "Thing"', 19, "the struct Thing contains itself"),
    ('"name": "Id", "type": "int64"', '"name": "Id", "type": "int64", "id": 1', 19, "has an unknown member 'id'"),
    ('"mapKey": true', '"mapKey": 1', 19, "mapKey must be true or false"),
    ('"mapKey": true }', '"mapKey": true', 20, "not JSON: a comma or } is missing before ']'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "reason"), CASES)
def test_what_is_wrong_is_refused_with_its_line(old: str, new: str, line: int, reason: str) -> None:
    assert GOOD.count(old) == 1
    error = refused(GOOD.replace(old, new), RESPONSE)
    assert (error.file, error.line) == ("0.json", line), error
    assert reason in error.message
    assert str(error) == f"0.json:{line}: {error.message}"


def test_files_are_checked_against_each_other() -> None:
    assert "VendorThingRequest has no response" in str(refused(GOOD))
    assert "VendorThingResponse has no request" in str(refused(RESPONSE))
    assert str(refused(GOOD, RESPONSE, GOOD)) == "2.json:6: VendorThingRequest is already defined in 0.json"
    other = GOOD.replace("VendorThingRequest", "VendorOtherRequest")
    assert (
        str(refused(GOOD, RESPONSE, other)) == "2.json:3: API key 10000 is already used by VendorThingRequest (0.json)"
    )


def test_a_message_is_not_larger_than_anybody_needs() -> None:
    """Without a limit, structs nested many times would have more fields than memory can hold."""
    inside = ", ".join(f'{{"name": "F{i}", "type": "NEXT", "versions": "0+"}}' for i in range(10))
    struct = f'{{"name": "THIS", "versions": "0+", "fields": [{inside}]}}'
    structs = [struct.replace("THIS", f"S{i}").replace("NEXT", f"S{i + 1}") for i in range(12)]
    structs.append('{"name": "S12", "versions": "0+", "fields": [{"name": "A", "type": "int8", "versions": "0+"}]}')
    head = '{"type": "data", "name": "Wide", "validVersions": "0", "flexibleVersions": "none",'
    fields = '"fields": [{"name": "X", "type": "S0", "versions": "0+"}]}'
    wide = f'{head}\n"commonStructs": [{", ".join(structs)}],\n{fields}'
    assert "more than 5000 fields" in str(refused(wide))


def test_a_number_of_very_many_digits() -> None:
    wrong = GOOD.replace("10000", "1" * 5000)
    assert "0.json:3: not JSON: a number has too many digits" in str(refused(wrong, RESPONSE))


def test_data_has_no_key() -> None:
    data = '{"type": "data", "name": "Vendor", "validVersions": "0", "flexibleVersions": "none", "fields": []}'
    known = Definitions("4.4.0", read([("a", data)]))
    assert known.message("Vendor", 0) is not None
    with_key = data.replace('"type"', '"apiKey": 1, "type"')
    assert "it cannot have an apiKey" in str(refused(with_key))
