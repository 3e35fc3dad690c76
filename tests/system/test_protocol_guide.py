"""The grammar of every message against the protocol guide that Kafka prints from its own classes."""

from __future__ import annotations

import html
import re
import subprocess

import pytest

from kproxy.decoders.schema import definitions
from kproxy.decoders.schema.described import grammar
from tests.support.java import oracle_classpath

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

RULES = re.compile(r"<pre>((\w+) (Request|Response) \(Version: (\d+)\).*?)</pre>", re.DOTALL)
VERSIONS = 570
"""Versions of requests and responses that the guide of 4.4.0 has."""


def alike(line: str) -> str:
    """A rule without what only one of the two says.

    The guide has braces around structs, no mark of arrays that are tagged, and marks a struct that may be null in its
    own rule; it does not mention the tagged fields that end a struct.
    """
    line = line.replace("{ ", "").replace(" }", "").replace("{}", "").replace(" _tagged_fields", "").replace("?", "")
    return re.sub(r"[(\[](\w+<tag: \d+>)[)\]]", r"\1", line).rstrip()


def test_the_guide_has_the_same_rules() -> None:
    run = subprocess.run(
        ["java", "-Xmx256m", "-cp", oracle_classpath("4.4.0"), "org.apache.kafka.common.protocol.Protocol"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    seen = 0
    for match in RULES.finditer(html.unescape(run.stdout)):
        message = definitions().message(match[2] + match[3], int(match[4]))
        assert message is not None
        theirs = [alike(line) for line in match[1].strip().splitlines()]
        assert [alike(line) for line in grammar(message, int(match[4]))] == theirs
        seen += 1
    assert seen == VERSIONS
