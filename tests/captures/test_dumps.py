"""Bytes read from a textual dump equal those that the tool was given."""

from __future__ import annotations

import base64

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kproxy.captures.dumps import DumpError, bytes_of, of_base64

BYTES = bytes.fromhex("00000026001200046162636465666768696a6b6c6d6e6f70")

PRINTED = {
    "xxd": """\
00000000: 0000 0026 0012 0004 6162 6364 6566 6768  ...&....abcdefgh
00000010: 696a 6b6c 6d6e 6f70                      ijklmnop
""",
    "hexdump -C": """\
00000000  00 00 00 26 00 12 00 04  61 62 63 64 65 66 67 68  |...&....abcdefgh|
00000010  69 6a 6b 6c 6d 6e 6f 70                           |ijklmnop|
00000018
""",
    "hexdump, 16-bit words in the machine's order": """\
0000000 0000 2600 1200 0400 6261 6463 6665 6867
0000010 6a69 6c6b 6e6d 706f
0000018
""",
    "od -A x -t x1z": """\
000000 00 00 00 26 00 12 00 04 61 62 63 64 65 66 67 68  >...&....abcdefgh<
000010 69 6a 6b 6c 6d 6e 6f 70                          >ijklmnop<
000018
""",
    "od -t x1, octal offsets": """\
0000000 00 00 00 26 00 12 00 04 61 62 63 64 65 66 67 68
0000020 69 6a 6b 6c 6d 6e 6f 70
0000030
""",
    "od -A d -t x1": """\
0000000 00 00 00 26 00 12 00 04 61 62 63 64 65 66 67 68
0000016 69 6a 6b 6c 6d 6e 6f 70
0000024
""",
    "xxd -i": """\
unsigned char frame_bin[] = {
  0x00, 0x00, 0x00, 0x26, 0x00, 0x12, 0x00, 0x04, 0x61, 0x62, 0x63, 0x64,
  0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0x70
};
unsigned int frame_bin_len = 24;
""",
    "tshark -x": """\
0000  00 00 00 26 00 12 00 04 61 62 63 64 65 66 67 68   ...&....abcdefgh
0010  69 6a 6b 6c 6d 6e 6f 70                           ijklmnop

""",
    "tcpdump -X": """\
06:02:02.347036 IP localhost.23002 > localhost.54786: Flags [P.], seq 1:25, length 24
\t0x0000:  0000 0026 0012 0004 6162 6364 6566 6768  ...&....abcdefgh
\t0x0010:  696a 6b6c 6d6e 6f70                      ijklmnop
""",
    "one line of digits": BYTES.hex(),
    "upper case": BYTES.hex().upper(),
    "digits on lines": "\n".join([BYTES.hex()[:32], BYTES.hex()[32:]]),
    "spaces": BYTES.hex(" "),
    "groups of four bytes": BYTES.hex(" ", 4),
    "colons": BYTES.hex(":"),
    "hyphens": BYTES.hex("-"),
    "0x before all": "0x" + BYTES.hex(),
    "0x before each": " ".join(f"0x{byte:02x}" for byte in BYTES),
    "short numbers": "[]byte{" + ", ".join(f"0x{byte:x}" for byte in BYTES) + "}",
    "Python's repr": repr(BYTES),
    "escapes": "".join(f"\\x{byte:02x}" for byte in BYTES),
    "escapes on lines": f'"{"".join(f"{chr(92)}x{byte:02x}" for byte in BYTES[:9])}"\n'
    f'"{"".join(f"{chr(92)}x{byte:02x}" for byte in BYTES[9:])}"',
    "octal escapes": "'" + "".join(f"\\{byte:03o}" for byte in BYTES) + "'",
    "base64": base64.b64encode(BYTES).decode(),
}


@pytest.mark.parametrize("tool", PRINTED)
def test_what_tools_print(tool: str) -> None:
    assert bytes_of(PRINTED[tool]) == [BYTES]


def test_lines_that_were_left_out() -> None:
    zeros = """\
00000000  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
*
00000030  01                                                |.|
00000031
"""
    assert bytes_of(zeros) == [bytes(48) + b"\x01"]
    octal = zeros.replace("00000030", "0000060").replace("00000031", "0000061").replace("00000000", "0000000", 1)
    assert bytes_of(octal) == [bytes(48) + b"\x01"]


def test_characters_that_look_like_digits() -> None:
    """The text column of xxd and tcpdump is never read as hex."""
    assert bytes_of("00000000: 6162 6364 6566  abcdef\n") == [b"abcdef"]
    lines = "0000  61 62 63 64 65 66 61 62 63 64 65 66 61 62 63 64   abcdefabcdefabcd\n0010  61 62   ab\n"
    assert bytes_of(lines) == [b"abcdefabcdefabcdab"]


def packet(payload: bytes, ports: tuple[int, int] = (50000, 9092), sequence: int = 0) -> bytes:
    """An Ethernet frame with an IPv4 TCP segment."""
    numbers = (sequence % (1 << 32)).to_bytes(4, "big") + bytes(4)
    tcp = ports[0].to_bytes(2, "big") + ports[1].to_bytes(2, "big") + numbers + b"\x50\x18" + bytes(6)
    total = (20 + len(tcp) + len(payload)).to_bytes(2, "big")
    ip = b"\x45\x00" + total + bytes(5) + b"\x06" + bytes(2) + b"\x0a\x00\x00\x01\x0a\x00\x00\x02"
    return bytes(12) + b"\x08\x00" + ip + tcp + payload


def dump(data: bytes) -> str:
    return "".join(f"{at:04x}  {data[at : at + 16].hex(' ')}\n" for at in range(0, len(data), 16)) + "\n"


@pytest.mark.parametrize("skip", [0, 14])
def test_packets_give_what_their_tcp_carries(skip: int) -> None:
    there = [packet(BYTES[:10]), packet(b"answer", (9092, 50000)), packet(BYTES[10:], sequence=10)]
    assert bytes_of("".join(dump(one[skip:]) for one in there)) == [BYTES, b"answer"]


def test_packets_in_any_order() -> None:
    """Late, repeated, with sequence numbers that wrap; a gap is not closed."""
    parts = [(0, BYTES[:10]), (10, BYTES[10:16]), (16, BYTES[16:])]

    def pieces(order: list[int], start: int) -> list[bytes]:
        return bytes_of("".join(dump(packet(parts[at][1], sequence=start + parts[at][0])) for at in order))

    for start in (0, -12):
        assert pieces([1, 0, 2, 0], start) == [BYTES]
        assert pieces([2, 1, 0], start) == [BYTES]
        assert pieces([2, 0], start) == [BYTES[:10], BYTES[16:]]


def test_what_tshark_put_together_is_not_read_twice() -> None:
    one, two = packet(BYTES[:10]), packet(BYTES[10:], sequence=10)
    together = f"Reassembled TCP (24 bytes):\n{dump(BYTES)}"
    assert bytes_of(dump(one) + f"Frame (68 bytes):\n{dump(two)}{together}") == [BYTES]
    assert bytes_of(f"Frame (68 bytes):\n{dump(two)}{together}") == [BYTES]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the text holds no bytes"),
        ("0x", "not hex"),
        ("hello", "not hex: 'h' at line 1, column 1"),
        ("00 0g", "not hex: 'g' at line 1, column 5"),
        ("00 0x11\n,, 2x g", "not hex: 'x' at line 2, column 5"),
        ("000", "the number of hex digits is odd: 3"),
        ("00000000: 0000\n00000005: 00", "line 1: 2 bytes, expected 5"),
        ("00000000: 0000\n00000001: 00\n00000005: 00", "line 2: offset 00000001 after 2 bytes"),
        ("00000000: zz", "not hex"),
        ("00000000:", "the text holds no bytes"),
        ("00000000: 00\n*\n7fffffff: 00", "the repeated lines (*) do not fit"),
        ("00000000  -- -- 00 12              | authBytes: withheld", "not hex"),
    ],
)
def test_what_is_no_dump_says_where(text: str, said: str) -> None:
    with pytest.raises(DumpError, match=r"^.") as caught:
        bytes_of(text)
    assert said in str(caught.value)


def test_base64_only_where_it_can_be_nothing_else() -> None:
    assert bytes_of("deadbeef") == [bytes.fromhex("deadbeef")]
    assert bytes_of("AAAAJgASAAQ=") == [BYTES[:8]]
    assert of_base64("deadbeef") == base64.b64decode("deadbeef")
    assert of_base64("_-8") == b"\xff\xef"
    with pytest.raises(DumpError, match="not base64"):
        of_base64("a*")


@given(st.text(st.sampled_from("0123456789abcdefgxX:|>*#\\ \t\n{},=\"'-"), max_size=200))
@example("0000\n*\n0010")
@example("\\")
def test_any_text_gives_bytes_or_a_reason(text: str) -> None:
    try:
        pieces = bytes_of(text)
    except DumpError:
        return
    assert pieces


@given(st.binary(min_size=1, max_size=200), st.sampled_from(["hex", "spaces", "groups", "dump", "repr"]))
def test_what_was_printed_is_read(data: bytes, form: str) -> None:
    texts = {
        "hex": data.hex(),
        "spaces": data.hex(" "),
        "groups": data.hex(" ", 2),
        "dump": "".join(
            f"{at:08x}: {data[at : at + 16].hex(' ', -2):39}  {''.join(map(_character, data[at : at + 16]))}\n"
            for at in range(0, len(data), 16)
        ),
        "repr": "".join(f"\\x{byte:02x}" for byte in data),
    }
    assert b"".join(bytes_of(texts[form])) == data


def _character(byte: int) -> str:
    return chr(byte) if 32 <= byte < 127 else "."


def test_lines_after_a_number_sign_are_words() -> None:
    assert bytes_of("# a title\n00000000  00 12                    | requestApiKey: 18\n") == [b"\x00\x12"]
