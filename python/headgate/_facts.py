"""How facts of a job stand below one another: a name, a figure, and failed rows by what they failed with."""

from collections.abc import Iterable, Iterator, Mapping
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
