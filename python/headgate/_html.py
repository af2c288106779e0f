"""How facts look in a notebook."""

from collections.abc import Iterable
from html import escape

from headgate._facts import Fact


def table(title: str, facts: Iterable[Fact]) -> str:
    """Two columns, under a title; an indented name belongs to the one above."""
    rows = "".join(
        f'<tr><td style="text-align: left; white-space: pre">{escape(name)}</td>'
        f'<td style="text-align: left">{escape(value)}</td></tr>'
        for name, value in facts
    )
    return f'<table><caption style="text-align: left">{escape(title)}</caption>{rows}</table>'
