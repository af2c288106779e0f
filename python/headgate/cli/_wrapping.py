"""Text that fits the terminal: it is broken between words, which terminals do not do."""

import os
import re
import shutil
import textwrap
from typing import IO, Final

_WIDEST_HELP: Final = 100
_FEWEST_BESIDE: Final = 20
"""Where fewer columns are left beside the name of a figure, what goes on begins below the name."""

_NAME_OF_A_FIGURE: Final = re.compile(r"  +\S+(?: \S+)*  +")


def help_width() -> int:
    """Columns of the terminal, as far as they help to read; what is no terminal gets that many, too."""
    return min(shutil.get_terminal_size((_WIDEST_HELP, 1)).columns, _WIDEST_HELP)


def wrapped(text: str, width: int) -> str:
    """Text with paragraphs that fit the width; those with lines that are set in stay as they are."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.split("\n")
        is_prose = not any(line.startswith(" ") for line in lines)
        paragraphs.append(_filled(" ".join(lines), width) if is_prose else paragraph)
    return "\n\n".join(paragraphs)


def terminal_width(stream: IO[str]) -> int | None:
    """Columns of the terminal, if the stream is one and its size is known."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:  # it is no terminal, or one that has gone away
        return None


def fitted(report: str, stream: IO[str]) -> str:
    """A report on a job, as the stream shows it: on a terminal, lines that are too long go on below their figures."""
    width = terminal_width(stream)
    if width is None:
        return report
    return "\n".join(line if len(line) <= width else _fitted(line, width) for line in report.split("\n"))


def _fitted(line: str, width: int) -> str:
    name = _NAME_OF_A_FIGURE.match(line)
    indent = 0 if name is None else name.end()
    if width - indent < _FEWEST_BESIDE:
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
