"""Reads the documents of the checkout."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")),
)


@dataclass(frozen=True)
class Example:
    """A program in a document, with what it prints; `heading` is the one above it."""

    heading: str
    code: str
    output: str


def text(name: str) -> str:
    """A whole document."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    """What stands between fences of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text(name), re.MULTILINE | re.DOTALL)


def examples(name: str) -> list[Example]:
    """The Python programs, each with the text that follows it."""
    found: list[Example] = []
    heading = ""
    parts = (
        r"^#+ (?P<heading>[^\n]*)$|^```(?P<language>\w*)\n(?P<content>.*?)^```$(?:\n+^```text\n(?P<output>.*?)^```$)?"
    )
    for part in re.finditer(parts, text(name), re.MULTILINE | re.DOTALL):
        heading = part["heading"] or heading
        if part["language"] == "python":
            assert part["output"] is not None, f"{name}, {heading}: what does the example print?"
            found.append(Example(heading, part["content"], part["output"]))
    return found


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
