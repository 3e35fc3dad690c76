"""The API keys of the program are those of Kafka's definitions."""

from __future__ import annotations

import re

from kproxy.decoders.schema import api_keys, definitions


def test_each_is_called_as_kafka_calls_it() -> None:
    known = definitions()
    found = {name: value for name, value in vars(api_keys).items() if name.isupper()}
    assert len(found) > 30
    for name, key in found.items():
        assert re.sub(r"(?<!^)(?=[A-Z])", "_", str(known.api_name(key))).upper() == name
