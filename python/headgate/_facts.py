"""Facts about a job as aligned lines and as a table of a notebook."""

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Final, Protocol

from headgate import _format

Fact = tuple[str, str]

_INDENT: Final = "  "
_GAP: Final = "  "
_MOST_NAMED: Final = 5


class Outcomes(Protocol):
    """Rows that have ended, one way or the other."""

    @property
    def answered(self) -> int:
        """Those with an answer."""
        ...

    @property
    def failed(self) -> int:
        """The others."""
        ...

    @property
    def errors(self) -> dict[str, int]:
        """These by what they failed with."""
        ...


def rows_by_outcome(
    of: Outcomes, *, statuses: str = "", again: str = "", reasons: Mapping[str, str] | None = None
) -> Iterator[Fact]:
    """Rows that were answered, rows that failed, and of these a line for each kind, with a reason if one is known."""
    yield "answered", _with(_format.count(of.answered), statuses)
    yield f"failed{again}", _format.count(of.failed)
    for kind, number in most_first(of.errors):
        yield f"{_INDENT}{kind}", _with(_format.count(number), (reasons or {}).get(kind, ""))


def most_first(errors: Mapping[str, int]) -> list[tuple[str, int]]:
    """Kinds of errors, the most frequent first."""
    return sorted(errors.items(), key=lambda item: (-item[1], item[0]))


def by_number(counts: Mapping[str, int]) -> str:
    """What there is of each, the most frequent first, after the sum."""
    most = most_first(counts)
    named = [f"{name}: {_format.count(number)}" for name, number in most[:_MOST_NAMED]]
    more = ["..."] if len(most) > _MOST_NAMED else []
    return f"{_format.count(sum(counts.values()))}{_GAP}({', '.join(named + more)})"


def aligned(facts: Iterable[Fact]) -> Iterator[str]:
    """A line for each, figures below figures."""
    rows = list(facts)
    width = max(len(name) for name, _ in rows)
    return (f"{_INDENT}{name:<{width}}{_GAP}{value}" for name, value in rows)


def _with(figure: str, words: str) -> str:
    return f"{figure}{_GAP}{words}" if words else figure


_LONGEST: Final = 1000
"""Letters of a title, a name or a value: some are as servers send them."""


def table(title: str, facts: Iterable[Fact]) -> str:
    """Two columns, under a title; an indented name belongs to the one above."""
    rows = "".join(
        f'<tr><td style="text-align: left; white-space: pre">{_shown(name)}</td>'
        f'<td style="text-align: left">{_shown(value)}</td></tr>'
        for name, value in facts
    )
    return f'<table><caption style="text-align: left">{_shown(title)}</caption>{rows}</table>'


def _shown(text: str) -> str:
    return escape(_format.printable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."))
