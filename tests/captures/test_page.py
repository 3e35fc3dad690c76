"""One exchange as an HTML page: it loads nothing from elsewhere, and text from the wire never becomes markup."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from click.testing import CliRunner

from kproxy.cli.exits import Exit
from kproxy.cli.main import main
from tests.captures import files, traffic

VOID = {"meta"}


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str] = []
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.links += [value or "" for name, value in attrs if name in {"src", "href"} or name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.parts)


def page(capture: Path, *arguments: str) -> Reader:
    result = CliRunner().invoke(main, ["export", str(capture), "--format", "html", *arguments])
    assert result.exit_code == Exit.OK, result.stderr
    reader = Reader()
    reader.feed(result.stdout)
    assert not reader.open
    assert not reader.links
    assert reader.seen <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "table", "tr", "th", "td", "p", "ul", "li",
        "details", "summary", "div", "span", "pre",
    }  # fmt: skip
    return reader


def test_an_exchange_with_its_fields_and_bytes() -> None:
    text = page(traffic.LIBRDKAFKA, "--exchange", "2").text
    assert "Metadata v13" in text
    assert "127.0.0.1:19092" in text
    assert "allowAutoTopicCreation" in text
    assert "UNKNOWN_TOPIC_OR_PARTITION" in text
    assert "ApiVersions" not in text
    assert "00000000" in text


def test_nothing_of_the_wire_is_markup(tmp_path: Path) -> None:
    whole = b"".join(frame for _, frame in traffic.packets(traffic.LIBRDKAFKA))
    assert b"shop-none" in whole
    packets = [
        (time, frame.replace(b"shop-none", b"<b>\"'&</b")) for time, frame in traffic.packets(traffic.LIBRDKAFKA)
    ]
    text = page(files.write(tmp_path / "a.pcap", files.pcap(packets)), "--exchange", "1").text
    assert "<b>\"'&</b" in text


def test_several_can_be_shown() -> None:
    assert page(traffic.KAFKA_1_1, "-c", "40").text.count("UpdateMetadata v") > 5


def test_one_must_be_named() -> None:
    arguments = ["export", str(traffic.LIBRDKAFKA), "--format", "html"]
    assert CliRunner().invoke(main, arguments).exit_code == Exit.USAGE
    result = CliRunner().invoke(main, [*arguments, "--exchange", "100000"])
    assert "there is no exchange 100000" in result.stderr
