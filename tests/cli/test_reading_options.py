"""The options that say how captures are read, as one value."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kproxy.captures.ports import Ports
from kproxy.captures.spool import Spooling
from kproxy.cli.options.reading import Reading, reading_options


@pytest.mark.parametrize(
    "given",
    [
        Reading(),
        Reading(Ports.parse("9092,9094-9096")),
        Reading(release="3.9.2"),
        Reading(user_definitions=("coordinator-draft-1", "coordinator-draft-2")),
        Reading(spooling=Spooling(Path("/spooled"), 1 << 30)),
        Reading(spooling=Spooling(Path("/spooled"))),
    ],
)
def test_the_words_of_a_reading_give_the_same_reading(given: Reading) -> None:
    found: list[Reading] = []

    @click.command()
    @reading_options
    def command(reading: Reading) -> None:
        found.append(reading)

    result = CliRunner().invoke(command, given.words())
    assert result.exit_code == 0, result.output
    (reading,) = found
    assert str(reading.ports) == str(given.ports)
    assert (reading.release, reading.keylog) == (given.release, given.keylog)
    assert reading.user_definitions == given.user_definitions
    assert reading.spooling is not None
    spooling = given.spooling or Spooling()
    assert (reading.spooling.directory, reading.spooling.most) == (spooling.directory, spooling.most)


def test_a_key_log_is_named_too(tmp_path: Path) -> None:
    keylog = tmp_path / "keys.log"
    assert Reading(keylog=keylog).words() == [f"--keylog={keylog}"]
