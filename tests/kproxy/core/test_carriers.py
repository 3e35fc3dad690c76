"""Every address in every response definition is either rewritten or left alone for a reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from kproxy.core.addresses import API_KEYS, CARRIERS, LEFT_ALONE, ONLY_WHEN_ASKED, carrier
from kproxy.decoders.schema import Message, definitions
from kproxy.decoders.schema.model import Field


def hosts(fields: Sequence[Field], version: int, path: str) -> Iterator[str]:
    """Paths of the structs that have a host (each version by itself), and of hosts that stand alone."""
    present = [field for field in fields if version in field.versions]
    names = {field.name.lower() for field in present}
    for field in present:
        inner = f"{path}.{field.name}"
        if "host" in field.name.lower() or "address" in field.name.lower():
            yield path if "port" in names else inner
        if field.struct is not None:
            yield from hosts(field.struct.fields, version, inner)


def rewritten(message: Message, version: int) -> str | None:
    found = carrier(message, version)
    if found is None:
        return None
    carried, field = found
    path = message.name if field is None else f"{message.name}.{field.name}"
    return f"{path}.{carried.listeners}" if carried.listeners else path


@pytest.mark.parametrize("release", ["3.9.2", "4.4.0"])
def test_every_address_of_every_response(release: str) -> None:
    known = definitions(release)
    left: set[str] = set()
    for api_key, version in known.pairs():
        message = known.response(api_key, version)
        assert message is not None
        for path in hosts(message.fields, version, message.name):
            if path == rewritten(message, version):
                assert API_KEYS[api_key] == message.name
            else:
                assert path in LEFT_ALONE, f"{path} v{version}"
                left.add(path)
    if release == "4.4.0":
        assert left == set(LEFT_ALONE), "reasons for what is not there"


def test_the_tables_name_each_other() -> None:
    assert set(API_KEYS.values()) == set(CARRIERS)
    assert set(CARRIERS) >= ONLY_WHEN_ASKED


def test_ports_and_endpoints_are_never_without_a_host() -> None:
    """The test above finds addresses by the name "host"; this one finds a definition that has other names."""
    known = definitions()
    for api_key, version in known.pairs():
        message = known.response(api_key, version)
        assert message is not None
        for name, siblings in _structs(message.fields, version, message.name):
            if any(sibling in {"port", "endpoint", "endpoints", "listener"} for sibling in siblings):
                assert "host" in siblings, f"{name} v{version}"


def _structs(fields: Sequence[Field], version: int, path: str) -> Iterator[tuple[str, set[str]]]:
    present = [field for field in fields if version in field.versions]
    yield path, {field.name.lower() for field in present if field.struct is None}
    for field in present:
        if field.struct is not None:
            yield from _structs(field.struct.fields, version, f"{path}.{field.name}")
