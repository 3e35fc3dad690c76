"""`kproxy decode` as somebody uses it: input in, exit code, what is said."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.decoders.batches.support import batch, record

REQUEST = bytes.fromhex("00000014 0012 0003 00000001 0004 74657374 00 02 61 02 31 00")
ANSWER = struct.pack(">iiih", 10, 7, 0, 27)
"""A Heartbeat's, REBALANCE_IN_PROGRESS, and as well many others'."""


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def run(*args: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(main, ["decode", *args], input=stdin)


def body(result: Result) -> object:
    assert result.exit_code == Exit.OK, result.output
    return json.loads(result.stdout)["body"]


EXPECTED = {"clientSoftwareName": "a", "clientSoftwareVersion": "1"}


def test_hex_in_words_or_in_one() -> None:
    assert body(run("--json", REQUEST.hex())) == EXPECTED
    assert body(run("--format", "json", *REQUEST.hex(" ").split())) == EXPECTED
    assert body(run("--json", "--base64", base64.b64encode(REQUEST).decode())) == EXPECTED


@pytest.mark.parametrize("content", [REQUEST, REQUEST.hex(" ").encode(), base64.b64encode(REQUEST)])
def test_a_file_or_standard_input_holds_bytes_or_text(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "frame"
    path.write_bytes(content)
    assert body(run("--json", f"@{path}")) == EXPECTED
    assert body(run("--json", "-", stdin=content)) == EXPECTED


def test_the_dump_is_input_again() -> None:
    dump = run("--format", "hex", REQUEST.hex())
    assert body(run("--json", "-", stdin=dump.stdout.encode())) == EXPECTED


def test_a_tree_says_first_what_it_is() -> None:
    result = run(REQUEST.hex())
    assert result.stdout.splitlines()[0] == 'ApiVersions request v3, correlation id 1, client id "test", 24 bytes'
    assert "guessed" not in result.stdout


def test_a_guess_is_said_and_all_on_demand() -> None:
    result = run(ANSWER.hex())
    assert result.exit_code == Exit.OK
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Heartbeat response v3, ")
    assert lines[1].startswith("guessed: ")
    assert "27 REBALANCE_IN_PROGRESS" in result.stdout
    many = "0000000a 00000000 00010000 0000"
    assert "more messages (--all)" in run(many).stdout
    every = run("--all", many).stdout
    assert "(--all)" not in every
    assert "  StopReplicaResponse v0-1" in every
    told = json.loads(run("--json", ANSWER.hex()).stdout)
    assert told["guess"]
    assert {"message": "EndTxnResponse", "version": 2} in told["other_readings"]


def test_told_what_it_is() -> None:
    result = run("--api", "EndTxn", "--version", "2", "--response", ANSWER.hex())
    assert result.stdout.startswith("EndTxn response v2, correlation id 7, 14 bytes\n\n")
    alone = run("--api", "EndTxnResponse", "--version", "2", "--body", ANSWER[8:].hex(), "--json")
    assert body(alone) == {"throttleTimeMs": 0, "errorCode": 27}


def test_values_are_explained_in_the_tree() -> None:
    shown = run("--api", "Heartbeat", "--version", "2", "--response", ANSWER.hex())
    assert "27 REBALANCE_IN_PROGRESS  " in shown.stdout
    assert "Join the group again" in shown.stdout


def test_what_does_not_fit_ends_with_3() -> None:
    result = run(REQUEST[:-3].hex())
    assert result.exit_code == Exit.INPUT
    assert "✖ stopped at byte 21: " in result.stdout
    assert "✖ byte 21: 3 bytes of the frame are missing" in result.stdout
    nothing = run("ff" * 9, "--json")
    assert nothing.exit_code == Exit.INPUT
    line = json.loads(nothing.stdout)
    assert (line["kind"], line["raw"]) == ("unknown", base64.b64encode(b"\xff" * 9).decode())
    assert "no known message fits" in run("ff" * 9).stdout


def test_secrets() -> None:
    login = bytes.fromhex("00000014 0024 0001 00000001 ffff 00000006 736563726574")
    for form in ("tree", "json", "hex"):
        hidden = run("--format", form, login.hex()).stdout
        shown = run("--format", form, "--show-secrets", login.hex()).stdout
        secret = {"json": "c2VjcmV0"}.get(form, "73 65 63 72 65 74")
        assert secret not in hidden
        assert secret in shown


def test_a_guess_shows_no_secret_of_another_message_that_fits() -> None:
    """The token of an authentication is written as a list of small numbers is, which is the likelier reading."""
    data = "07 736563726574 00"
    for form, secret in (("tree", "73 65 63 72"), ("tree", "115"), ("json", "115"), ("hex", "73 65 63 72")):
        hidden = run("--body", "--request", "--format", form, data)
        assert secret not in hidden.stdout
        assert "withheld, as SaslAuthenticateRequest v2 fits too and holds a secret" in hidden.stdout
    line = json.loads(run("--body", "--request", "--json", data).stdout)
    assert (line["message"], line["body"]) == ("ListConfigResourcesRequest", None)
    assert line["raw"] == {"redacted": True, "sizeInBytes": 8}
    assert "115" in run("--body", "--request", "--show-secrets", "--json", data).stdout
    assert "115" in run("--api", "ListConfigResourcesRequest", "--body", "--version", "1", "--json", data).stdout


@pytest.mark.parametrize(
    ("args", "message", "code"),
    [
        (["hello"], "HEX: not hex: 'h' at line 1, column 1", Exit.USAGE),
        (["000"], "HEX: the number of hex digits is odd", Exit.USAGE),
        (["@/no/such/file"], "/no/such/file: No such file or directory", Exit.INPUT),
        (["-"], "-: empty", Exit.INPUT),
        (["@a", "@b"], "@FILE or - must be the only argument", Exit.USAGE),
        (["--api", "Fetsh", "00"], "did you mean Fetch?", Exit.USAGE),
        (["--api", "Fetch", "--version", "99", "00"], "--version 99: Fetch has versions 0 to 18", Exit.USAGE),
        (["--api", "Fetch", "--version", "x", "00"], "'x' is not a version", Exit.USAGE),
        (["--records", "--api", "Fetch", "00"], "--records excludes --api", Exit.USAGE),
        (["--base64", "*"], "HEX: not base64", Exit.USAGE),
    ],
)
def test_a_wrong_command_line(args: list[str], message: str, code: Exit) -> None:
    result = run(*args)
    assert result.exit_code == code
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not result.stdout


def test_text_that_is_a_dump_with_a_fault_is_not_read_as_bytes(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_text("00 00 00 14 00 1g")
    assert run(f"@{path}").exit_code == Exit.INPUT
    assert f"{path}: not hex" in run(f"@{path}").stderr


@pytest.mark.parametrize("content", [b"\xd4\xc3\xb2\xa1" + bytes(20), b"\n\r\r\n" + bytes(24)])
def test_a_capture_is_no_message(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "traffic"
    file.write_bytes(content)
    result = run(f"@{file}")
    assert result.exit_code == Exit.INPUT
    assert "this is a capture: read it with kproxy export; kproxy decode reads messages" in result.stderr


def test_payloads_by_viewers(tmp_path: Path) -> None:
    file = tmp_path / "batch"
    file.write_bytes(batch(record(0, None, b'{"a": 1}'), 1))
    text = run(f"@{file}", "--records", "--view", "*=json")
    assert 'json: {"a": 1}' in text.stdout
    (shown,) = json.loads(run(f"@{file}", "--json", "--view", "*=json").stdout)["body"]["batches"][0]["records"]
    assert (shown["value"]["format"], shown["value"]["decoded"]) == ("json", {"a": 1})
    wrong = run(f"@{file}", "--view", "*=nobody")
    assert wrong.exit_code == Exit.USAGE


def test_the_dump_shows_attributes_and_not_their_bits() -> None:
    result = run("--format", "hex", batch(record(0, None, b"v"), 1).hex())
    assert "batches[0].attributes: 0" in result.stdout
    assert "compression" not in result.stdout


def test_records_and_other_messages() -> None:
    result = run("--api", "ConsumerProtocolSubscription", "000000000001000474657374ffffffff")
    assert result.exit_code == Exit.OK
    assert "ConsumerProtocolSubscription v0" in result.stdout.splitlines()[0]
    assert run("--records", "00" * 40).exit_code == Exit.INPUT


def test_much_text_is_no_message(tmp_path: Path) -> None:
    path = tmp_path / "prose"
    path.write_text("The quick brown fox.\n" * 60_000)
    result = run(f"@{path}")
    assert result.exit_code == Exit.INPUT
    assert f"{path}: not hex: 'T' at line 1, column 1" in result.stderr
