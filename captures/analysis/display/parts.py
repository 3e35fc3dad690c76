"""Parts of lines of text that several views share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kproxy.captures.views import Line
from kproxy.decoders.schema import errors


def joined(facts: Iterable[str | None]) -> str:
    return "  ".join(fact for fact in facts if fact)


def user_text(user: Line) -> str:
    return f"{user['client_id'] or '(no client id)'}@{user['host']}" + (
        f" {user['software']}" if user["software"] else ""
    )


def error_lines(one: Line) -> Iterator[str]:
    """A line for each error code, with its first exchange."""
    for code, count in one["errors"].items():
        yield f"    {count} {errors.name(code)}  #{one['error_exchanges'][code]}"


def first_exchange(user: Line) -> str:
    return f"#{user['first_exchange']}"
