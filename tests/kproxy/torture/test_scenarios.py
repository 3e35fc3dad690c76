"""Every scenario file is whole, and its rules are valid; what is not whole is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.cli.commands.torture import command
from kproxy.faults.files import load as load_rules
from kproxy.faults.trouble import FaultsError
from kproxy.torture.scenario import FOLDER, ROLES, load, names, scenarios

WHOLE = """\
about:
  fault: A fault.
  correct: Waits.
  seen: nowhere#1
  role: produce
rules:
  - api == Fetch => delay 1s
"""


def test_there_are_scenarios_for_every_role() -> None:
    assert len(names()) >= 25
    assert {scenario.role for scenario in scenarios()} == set(ROLES)


@pytest.mark.parametrize("name", names())
def test_a_scenario_is_whole_and_a_rule_file(name: str) -> None:
    scenario = load(FOLDER / f"{name}.yaml")
    assert scenario.name == name
    assert all(text.endswith(".") for text in (scenario.fault, scenario.correct))
    assert scenario.seen
    assert tuple(load_rules((), scenario.path)) == scenario.rules
    assert len({rule.name for rule in scenario.rules}) == len(scenario.rules)


@pytest.mark.parametrize("name", names())
def test_a_scenario_is_explained(name: str) -> None:
    done = CliRunner().invoke(command, ["--explain", name])
    assert done.exit_code == 0, done.output
    assert (FOLDER / f"{name}.yaml").read_text(encoding="utf-8") in done.output


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("  fault: A fault.\n", ""), "a scenario has about:"),
        (("nowhere#1", "nowhere#1\n  more: 1"), "a scenario has about:"),
        (("role: produce", "role: dance"), "the role 'dance' is none of"),
        (("api == Fetch => delay 1s", "api == Fetch => dely 1s"), "dely"),
        (("about:", "abort:"), "expected a list of rules"),
    ],
)
def test_a_scenario_that_is_not_whole_is_refused(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(WHOLE)
    assert load(path).name == "one"
    path.write_text(WHOLE.replace(*change))
    with pytest.raises(FaultsError, match=said):
        load(path)


def test_a_scenario_without_rules_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(WHOLE.partition("rules:")[0] + "rules: []\n")
    with pytest.raises(FaultsError, match="has no rules"):
        load(path)


def test_an_unknown_scenario_and_a_missing_program_are_refused() -> None:
    for arguments, said in (
        (["--explain", "no-such"], "there is no scenario 'no-such'"),
        (["--scenario", "no-such", "--", "true"], "there is no scenario 'no-such'"),
        ([], "give the client's program"),
        (["--", "no-such-program-anywhere"], "cannot find the program no-such-program-anywhere"),
    ):
        done = CliRunner().invoke(command, arguments)
        assert done.exit_code == 2, done.output
        assert said in done.output


def test_a_rule_file_in_json_may_have_a_description_too(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text('{"about": "a fault", "rules": ["api == Fetch => delay 1s"]}')
    assert [rule.text for rule in load_rules((), path)] == ["api == Fetch => delay 1s response"]
    path.write_text('{"abort": "a fault", "rules": ["api == Fetch => delay 1s"]}')
    with pytest.raises(FaultsError, match="expected a list of rules"):
        load_rules((), path)
