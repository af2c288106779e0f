"""Wraps text to the width of the terminal between words, which terminals do not do."""

import os
import re
import shutil
import textwrap
from collections.abc import Iterable
from typing import IO, Final

_MAX_HELP_WIDTH: Final = 100
_MIN_BESIDE: Final = 20
"""If fewer columns are free beside the name of a figure, continuation lines begin below the name."""

_NAME_OF_A_FIGURE: Final = re.compile(r"  +\S+(?: \S+)*  +")


def help_width() -> int:
    """Returns the columns of the terminal, at most 100, which is also the default without a terminal."""
    return min(shutil.get_terminal_size((_MAX_HELP_WIDTH, 1)).columns, _MAX_HELP_WIDTH)


def wrapped(text: str, width: int) -> str:
    """Wraps paragraphs to the width, except paragraphs with indented lines."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.split("\n")
        is_prose = not any(line.startswith(" ") for line in lines)
        paragraphs.append(_filled(" ".join(lines), width) if is_prose else paragraph)
    return "\n\n".join(paragraphs)


def listed(rows: Iterable[tuple[str, str]], width: int, *, column: int = 0) -> str:
    """Returns a line for each name, with its text beside it and wrapped to the width.

    The texts begin at a column that fits the names, or at `column`; a longer name has a line of its own.
    """
    named = [(f"  {name}", text) for name, text in rows]
    column = min(column or max(len(name) for name, _ in named) + 2, max(width - _MIN_BESIDE, 4))
    lines = []
    for name, text in named:
        beside = [" " * column + line for line in _filled(text, max(width - column, 1)).split("\n")]
        if len(name) + 2 <= column:
            beside[0] = name + beside[0][len(name) :]
        else:
            lines.append(name)
        lines.extend(beside)
    return "\n".join(lines)


def terminal_width(stream: IO[str]) -> int | None:
    """Returns the columns of the terminal, if the stream is one and its size is known."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:  # it is not a terminal, or one that was closed
        return None


def fitted(report: str, stream: IO[str]) -> str:
    """Returns a report of a job for the stream: on a terminal, long lines continue below their figures."""
    width = terminal_width(stream)
    if width is None:
        return report
    return "\n".join(line if len(line) <= width else _fitted(line, width) for line in report.split("\n"))


def _fitted(line: str, width: int) -> str:
    name = _NAME_OF_A_FIGURE.match(line)
    indent = 0 if name is None else name.end()
    if width - indent < _MIN_BESIDE:
        indent = len(line) - len(line.lstrip()) + 2 if name is not None else 0
    return _filled(line, width, indent)


def _filled(text: str, width: int, indent: int = 0) -> str:
    return textwrap.fill(
        text,
        max(width, indent + 1),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
