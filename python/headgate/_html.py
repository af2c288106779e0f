"""How facts look in a notebook."""

from collections.abc import Iterable
from html import escape
from typing import Final

from headgate import _format
from headgate._facts import Fact

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
