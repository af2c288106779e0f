"""Reads the documents at the root of the checkout."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")


def text(name: str) -> str:
    """A whole document."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    """What stands between fences of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text(name), re.MULTILINE | re.DOTALL)


def tables(name: str) -> list[list[list[str]]]:
    """The tables: rows of cells, the first row being the head."""
    found = re.findall(r"(?:^\|.*\n)+", text(name), re.MULTILINE)
    return [[_cells(line) for line in table.splitlines() if not re.fullmatch(r"[|:\- ]+", line)] for table in found]


def table(name: str, *head: str) -> list[list[str]]:
    """The rows of the one table whose head begins with these cells."""
    (found,) = [rows[1:] for rows in tables(name) if tuple(rows[0][: len(head)]) == head]
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
