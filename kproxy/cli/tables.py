"""Plain tables for standard output."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """The head and rows as lines; the first `left` columns are aligned left, the others right."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def size(count: int) -> str:
    """A number of bytes with a unit, in powers of 1024: "512", "1.5M"."""
    amount, unit = float(count), ""
    for larger in "KMGT":
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f}{unit}" if unit else str(count)


def milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}" if value < 1000 else f"{value:.0f}"
