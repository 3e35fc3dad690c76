"""Tree and dump of a message as text show every byte once and withhold secrets."""

from __future__ import annotations

import re

import pytest

from kproxy.captures.dumps import bytes_of
from kproxy.captures.export.nodes import Style, hex_lines, tree_lines
from kproxy.decoders.byhand import Asked, Opened, Opener
from kproxy.decoders.schema import definitions
from kproxy.decoders.stream import Side
from kproxy.decoders.tree import Node
from kproxy.decoders.view import View
from tests.support.golden import Golden, golden


def opened(frame: bytes, one: Golden | None = None) -> Opened:
    side = Side.CLIENT if one is None or one.kind == "request" else Side.BROKER
    asked = Asked(side=side) if one is None or side is Side.CLIENT else Asked(one.api_key, one.api_version, side)
    return next(iter(Opener(definitions(), asked, View(show_secrets=True)).open(frame)))


@pytest.mark.parametrize("release", ["4.4.0", "3.9.2"])
def test_a_dump_has_every_byte_once_and_is_read_again(release: str) -> None:
    for one in golden(release)[::5]:
        if len(one.frame) > 2_000:
            continue
        for data in (one.frame, one.frame[4:], one.frame[: len(one.frame) * 2 // 3]):
            found = opened(data, one)
            skip = frozenset({"size"}) if found.shift else frozenset()
            style = Style(show_secrets=True, shift=found.shift, skip=skip)
            lines = list(hex_lines(found.root, found.data, style))
            assert bytes_of("\n".join(lines)) == [data], one
            assert tree_lines(found.root, found.data, style)


REQUEST = bytes.fromhex("00000014 0012 0003 00000001 0004 74657374 00 02 61 02 31 00")


def test_a_tree() -> None:
    found = opened(REQUEST)
    assert tree_lines(found.root, found.data, Style()) == [
        "  0-3  size                     int32   20",
        " 4-18  header",
        "  4-5    requestApiKey          int16   18",
        "  6-7    requestApiVersion      int16   3",
        " 8-11    correlationId          int32   1",
        '12-17    clientId               string  "test"',
        "   18    (other tagged fields)          none",
        "19-23  body",
        '19-20    clientSoftwareName     string  "a"',
        '21-22    clientSoftwareVersion  string  "1"',
        "   23    (other tagged fields)          none",
    ]


def test_bytes_stand_beside_the_fields_where_there_is_room() -> None:
    found = opened(REQUEST)
    narrow, wide = (tree_lines(found.root, found.data, Style(width=width)) for width in (119, 120))
    assert "74 65 73 74" not in "".join(narrow)
    assert "00 04 74 65 73 74" in next(line for line in wide if "clientId" in line)


def test_lines_are_cut_on_a_terminal_only() -> None:
    long = opened(b"\x00\x00\x00\x74" + REQUEST[4:12] + b"\x00\x64" + b"x" * 100 + REQUEST[18:])
    for cut in (True, False):
        lines = tree_lines(long.root, long.data, Style(width=60, cut=cut))
        assert (max(map(len, lines)) <= 60) is cut


def test_where_it_stopped_is_said_in_its_place() -> None:
    cut = opened(REQUEST[:22])
    lines = tree_lines(cut.root, cut.data, Style())
    at = next(index for index, line in enumerate(lines) if "clientSoftwareVersion" in line)
    assert lines[at + 1].strip().startswith("✖ stopped at byte 22: ")
    dump = list(hex_lines(cut.root, cut.data, Style(ascii_only=True)))
    assert any(line.startswith("# x stopped at byte 22: ") for line in dump)


def test_depth() -> None:
    found = opened(REQUEST)
    lines = tree_lines(found.root, found.data, Style(depth=0))
    assert [line.split()[-1] for line in lines if "..." not in line] == ["20", "header", "body"]
    assert sum("inside" in line for line in lines) == 2


TOKEN = bytes.fromhex("00000010 0024 0001 00000001 ffff 00000002 7365")


def test_secrets_are_withheld_with_all_that_may_be_one() -> None:
    for data in (TOKEN, TOKEN[:-1]):
        found = opened(data)
        hidden = Style(may_hold_secrets=found.may_hold_secrets)
        shown = "\n".join([*tree_lines(found.root, found.data, hidden), *hex_lines(found.root, found.data, hidden)])
        assert "73" not in re.sub(r"\(.*?\)", "", shown)
        assert "--show-secrets" in shown
        open_ = Style(show_secrets=True)
        assert "73" in "\n".join(hex_lines(found.root, found.data, open_))


def test_what_has_bytes_of_its_own_is_marked() -> None:
    root = Node("frame", "response", 0)
    root.end = 4
    outer = Node("records", "records", 0, root)
    outer.end, outer.value, outer.label = 4, memoryview(b"\1\2\3\4"), "gzip"
    inner = Node("value", "int32", 0, outer)
    inner.end, inner.value, inner.buffer = 4, 7, b"\0\0\0\7"
    asked = []

    def make(_: Node) -> list[Node]:
        asked.append(1)
        return [inner]

    outer.later(make)
    root.children.append(outer)
    lines = tree_lines(root, b"\1\2\3\4", Style())
    assert lines[0].split() == ["0-3", "records", "records", "4", "bytes", "(gzip)"]
    assert lines[1].split() == ["0-3'", "value", "int32", "7"]
    dump = list(hex_lines(root, b"\1\2\3\4", Style()))
    assert dump[0].split() == ["00000000", "01", "02", "03", "04", "|", "records:", "4", "bytes", "(gzip)"]
    assert dump[-1].split() == ["#", "00000000", "00", "00", "00", "07", "|", "records.value:", "7"]
    assert bytes_of("\n".join(dump)) == [b"\1\2\3\4"]
    assert asked == [1]


def test_text_from_the_wire_obeys_nobody() -> None:
    evil = opened(REQUEST[:14] + b"\x1b[2J" + REQUEST[18:])
    for lines in (tree_lines(evil.root, evil.data, Style()), list(hex_lines(evil.root, evil.data, Style()))):
        assert "\x1b" not in "\n".join(lines)
