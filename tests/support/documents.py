"""Reads the documents of the checkout."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")))
"""What users read, and whose examples run."""
DOCUMENTS = (*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md")


@dataclass(frozen=True)
class Example:
    """A program in a document, with what it prints; `heading` is the one above it."""

    heading: str
    code: str
    output: str


@dataclass(frozen=True)
class Command:
    """A line that is typed in a console, with what it prints; `heading` is the one above it."""

    heading: str
    typed: str
    output: str


Step: TypeAlias = Example | Command


def text(name: str) -> str:
    """A whole document."""
    return (ROOT / name).read_text(encoding="utf-8")


def prose(name: str) -> str:
    """A document without what stands between fences."""
    return re.sub(r"^```.*?^```$", "", text(name), flags=re.MULTILINE | re.DOTALL)


def steps(name: str) -> list[Step]:
    """Everything in a document that a reader could run, in order."""
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
    """The Python programs, each with the text that follows it."""
    return [step for step in steps(name) if isinstance(step, Example)]


def programs_run_by(name: str, test: str) -> list[str]:
    """The Python programs that this test runs: each is set in below a comment that says so."""
    found = re.findall(rf"^<!-- run by {re.escape(test)} -->\n\n((?:    .*\n|\n)+)", text(name), re.MULTILINE)
    return [textwrap.dedent(program) for program in found]


def anchors(name: str) -> set[str]:
    """The places within a document that a link can lead to, as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", prose(name), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(name: str) -> list[tuple[str, str]]:
    """The document or file and the place in it that each relative link leads to; the document is empty for its own."""
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(name))
    parts = [target.partition("#") for target in targets if "://" not in target]
    return [(path, place) for path, _, place in parts]


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
