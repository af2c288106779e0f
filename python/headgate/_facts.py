"""Formats facts about a job as aligned lines, and as a table in a notebook."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headgate import _format

Fact = tuple[str, str]

_INDENT: Final = "  "
_GAP: Final = "  "
_MAX_NAMED: Final = 5


def rows_by_outcome(
    succeeded: int,
    failed: int,
    errors: Mapping[str, int],
    *,
    statuses: str = "",
    reasons: Mapping[str, str] | None = None,
) -> Iterator[Fact]:
    """Yields rows that succeeded, rows that failed, and a line for each error kind, with a reason if one is known."""
    yield "succeeded", _with(_format.count(succeeded), statuses)
    yield "failed", _format.count(failed)
    for kind, number in by_frequency(errors):
        yield f"{_INDENT}{kind}", _with(_format.count(number), (reasons or {}).get(kind, ""))


def by_frequency(errors: Mapping[str, int]) -> list[tuple[str, int]]:
    """Returns error kinds, the most frequent first."""
    return sorted(errors.items(), key=lambda item: (-item[1], item[0]))


def by_number(counts: Mapping[str, int]) -> str:
    """Returns the sum, and the counts of the most frequent names."""
    most = by_frequency(counts)
    named = [f"{name}: {_format.count(number)}" for name, number in most[:_MAX_NAMED]]
    more = ["..."] if len(most) > _MAX_NAMED else []
    return f"{_format.count(sum(counts.values()))}{_GAP}({', '.join(named + more)})"


def aligned(facts: Iterable[Fact]) -> Iterator[str]:
    """Yields a line for each fact, with aligned values."""
    rows = list(facts)
    width = max(len(name) for name, _ in rows)
    return (f"{_INDENT}{name:<{width}}{_GAP}{value}" for name, value in rows)


def _with(figure: str, words: str) -> str:
    return f"{figure}{_GAP}{words}" if words else figure


_MAX_TEXT: Final = 1000
"""The bound of characters of a title, a name or a value, which may come from a server."""


def table(title: str, facts: Iterable[Fact]) -> str:
    """Returns an HTML table of two columns under a title; an indented name belongs to the one above."""
    rows = "".join(
        f'<tr><td style="text-align: left; white-space: pre">{_shown(name)}</td>'
        f'<td style="text-align: left">{_shown(value)}</td></tr>'
        for name, value in facts
    )
    return f'<table><caption style="text-align: left">{_shown(title)}</caption>{rows}</table>'


def _shown(text: str) -> str:
    from html import escape  # noqa: PLC0415 - only in a notebook

    return escape(_format.printable(text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."))
