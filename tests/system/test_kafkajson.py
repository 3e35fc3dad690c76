"""The reader of definitions in Kafka's form against all of Kafka's own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kproxy.decoders.schema import store
from kproxy.decoders.schema.jsontext import parse
from kproxy.decoders.schema.kafkajson import KINDS, message
from kproxy.decoders.schema.model import NEVER
from tools.schema import jars

pytestmark = pytest.mark.system


def test_every_definition_of_a_release_is_read_as_our_data_has_it(tmp_path: Path) -> None:
    newest = store.releases()[0]
    release = jars.fetch(newest, tmp_path)
    ours = {one.name: one.message for one in store.definitions()[newest]}
    read = 0
    for name, definition in release.definitions.items():
        if definition["type"] not in KINDS or "flexibleVersions" not in definition:
            continue  # headers, and APIs whose last version is gone
        found = message(parse(json.dumps(definition, indent=2)))
        # What a release serves only on demand is in our data from its brokers, not from its definitions.
        assert replace(found, release=newest, unstable=NEVER) == replace(ours[name], unstable=NEVER), name
        read += 1
    assert read > 150
