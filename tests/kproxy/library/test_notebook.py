"""What notebooks show: text from the wire cannot become markup."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import kproxy

MODERN = Path(__file__).parents[2] / "data" / "captures" / "kafka-4.4.0-librdkafka.pcap"
HOSTILE = b"<script>alert(1)</script>"


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.tags.add(tag)


def test_a_capture_is_a_table_of_its_first_exchanges() -> None:
    with kproxy.open(MODERN) as capture:
        html = capture._repr_html_()
    assert html.count("<tr>") == 21
    assert "the first 20 exchanges" in html
    assert Tags(html).tags == {"p", "table", "tr", "th", "td"}


def test_an_exchange_has_its_bodies() -> None:
    with kproxy.open(MODERN) as capture:
        html = next(iter(capture.where("error")))._repr_html_()
    assert "errors: UNKNOWN_TOPIC_OR_PARTITION" in html
    assert Tags(html).tags == {"table", "tr", "th", "td", "p", "details", "summary", "pre"}


def test_text_from_the_wire_is_escaped(tmp_path: Path) -> None:
    data = MODERN.read_bytes().replace(b"shop-none", HOSTILE[:9]).replace(b"shop-orders", HOSTILE[:11])
    path = tmp_path / "hostile.pcap"
    path.write_bytes(data)
    with kproxy.open(path) as capture:
        shown = [one._repr_html_() for one in capture.where("api in (Produce, Metadata)")]
        shown.append(capture._repr_html_())
    assert all("script" not in Tags(html).tags for html in shown)
    assert any("&lt;script&gt;" in html for html in shown)


def test_a_capture_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "no.pcap"
    path.write_bytes(b"nothing that is a capture")
    with kproxy.open(path) as capture:
        assert "not a capture" in capture._repr_html_()
