"""Any text is a filter or says what is wrong and where; what is one prints as text that means the same."""

from __future__ import annotations

from random import Random

from kproxy.decoders.fields import FIELDS
from kproxy.decoders.filters import Status, complete, parse
from kproxy.decoders.filters.language import KEYWORDS, OPERATORS, PREFIXES

WORDS = [
    *(field.name for field in FIELDS), *(operator.symbol for operator in OPERATORS), *KEYWORDS, *PREFIXES,
    "request.body.", "response.body.topics[].errorCode", "request.body.topics[0", "response.body..x", "[", "]",
    "[]", ".", "(", ")", ",", '"', "'", "\\", "=", "&&", "||", "!", "3", "-1", "50ms", "64KiB", "12:01", "2026-11-21",
    "Fetch", "NOT_LEADER_OR_FOLLOWER", "(a+)+$", "\u00b2", "\ud800", "\0", "\n", "9" * 30, "true",
]  # fmt: skip


def once(random: Random) -> None:
    """Read, complete and print one text."""
    text = random.choice(["", " "]).join(random.choices(WORDS, k=random.randrange(14)))
    for _ in range(random.randrange(3)):
        at = random.randrange(len(text) + 1)
        text = text[:at] + chr(random.randrange(1, 0x250)) + text[at + random.randrange(2) :]
    result = parse(text)
    assert 0 <= result.span[0] <= result.span[1] <= len(text), text
    assert (result.expression is None) == (result.status is not Status.OK), text
    if result.expression is not None:
        result.expression.compile()
        again = parse(str(result.expression))
        assert again.expression == result.expression, (text, str(result.expression))
    completion = complete(text, random.randrange(len(text) + 1), lambda _: [("orders", 2), ("a b", 1)])
    for candidate in completion.candidates[:20]:
        completion.accept(text, candidate)
