"""Reads the documents of the checkout."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")))
"""The pages for users; their examples are tests."""
DOCUMENTS = (*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md")


@dataclass(frozen=True)
class Example:
    """A program in a document, with its output; `heading` is the one above it."""

    heading: str
    code: str
    output: str


@dataclass(frozen=True)
class Command:
    """A command in a console, with its output; `heading` is the one above it."""

    heading: str
    typed: str
    output: str


Step: TypeAlias = Example | Command


def text(name: str) -> str:
    """Returns a whole document."""
    return (ROOT / name).read_text(encoding="utf-8")


def prose(name: str) -> str:
    """Returns a document without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text(name), flags=re.MULTILINE | re.DOTALL)


def steps(name: str) -> list[Step]:
    """Returns everything in a document that a reader could run, in order."""
    found: list[Step] = []
    heading = ""
    parts = (
        r"^#+ (?P<heading>[^\n]*)$"
        r"|^```(?P<language>\w*)\n(?P<content>.*?)^```$(?:\n+^```text\n(?P<output>.*?)^```$)?"
    )
    for part in re.finditer(parts, text(name), re.MULTILINE | re.DOTALL):
        heading = part["heading"] or heading
        if part["language"] == "python":
            assert part["output"] is not None, f"{name}, {heading}: what does the example print?"
            found.append(Example(heading, part["content"], part["output"]))
        elif part["language"] == "console":
            _, *commands = re.split(r"^\$ ", part["content"], flags=re.MULTILINE)
            assert commands, f"{name}, {heading}: what is typed?"
            found += [Command(heading, *command.split("\n", 1)) for command in commands]
    return found


def examples(name: str) -> list[Example]:
    """Returns the Python programs, each with the text that follows it."""
    return [step for step in steps(name) if isinstance(step, Example)]


def programs_run_by(name: str, test: str) -> list[str]:
    """Returns the Python programs that a test runs: each is indented, below a comment that names the test."""
    found = re.findall(rf"^<!-- run by {re.escape(test)} -->\n\n((?:    .*\n|\n)+)", text(name), re.MULTILINE)
    return [textwrap.dedent(program) for program in found]


def anchors(name: str) -> set[str]:
    """Returns the anchors in a document, as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", prose(name), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(name: str) -> list[tuple[str, str]]:
    """Returns the path and the anchor of each relative link; the path is empty within the document itself."""
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(name))
    parts = [target.partition("#") for target in targets if "://" not in target]
    return [(path, anchor) for path, _, anchor in parts]


def tables(name: str) -> list[list[list[str]]]:
    """Returns the tables as rows of cells; the first row is the header."""
    found = re.findall(r"(?:^\|.*\n)+", text(name), re.MULTILINE)
    return [[_cells(line) for line in table.splitlines() if not re.fullmatch(r"[|:\- ]+", line)] for table in found]


def table(name: str, *header: str) -> list[list[str]]:
    """Returns the rows of the one table whose header begins with these cells."""
    (found,) = [rows[1:] for rows in tables(name) if tuple(rows[0][: len(header)]) == header]
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
