"""What the documents name is there."""

import re
import tomllib
from collections.abc import Iterator

import pytest

from headgate import cli
from support.documents import DOCUMENTS, ROOT, tables, text

VERBS = ("fetch", "status", "retry", "show", "serve", "demo")
FOLDERS = ("crates", "python", "tests", "bench", "docs", "scripts", "requirements", ".ci")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_relative_link_leads_to_a_file(document: str) -> None:
    targets = re.findall(r"\]\(([^)]+)\)", text(document))
    relative = [target.partition("#")[0] for target in targets if "://" not in target]
    assert [] == [target for target in relative if not ((ROOT / document).parent / target).exists()]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_that_is_named_is_there(document: str) -> None:
    spans = re.findall(r"`([^`\s]+/[^`\s]*)`", text(document))
    # NAME stands for what the reader adds.
    paths = [
        span for span in spans if span.startswith(tuple(f"{folder}/" for folder in FOLDERS)) and "NAME" not in span
    ]
    assert [] == [path for path in paths if not (ROOT / path).exists()]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_target_that_is_named_is_there(document: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    known = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    assert set() == set(re.findall(r"(?:^    |`)make ([a-z0-9-]+)", text(document), re.MULTILINE)) - known


def flags_of(verb: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    assert cli.run([verb, "--help"]) == 0
    return set(flags_in(capsys.readouterr().out))


def flags_in(words: str) -> Iterator[str]:
    return (match[0] for match in re.finditer(r"(?<![\w-])--?[a-zA-Z][a-z-]*", words))


def test_every_option_in_the_readme_is_one_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    known = {verb: flags_of(verb, capsys) for verb in VERBS}
    named: list[tuple[str, str]] = []
    for line in text("README.md").splitlines():
        verb = re.search(rf"headgate ({'|'.join(VERBS)})\b", line)
        # Only what is typed: code, and lines of a console.
        typed = line if line.startswith("$ ") else " ".join(re.findall(r"`([^`]+)`", line))
        named += [(verb[1] if verb else "fetch", flag) for flag in flags_in(typed)]
    assert ("fetch", "--concurrency") in named
    assert ("serve", "--delay") in named
    assert [] == [(verb, flag) for verb, flag in named if flag not in known[verb]]


def test_the_options_table_shows_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["fetch", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    (rows,) = [table for table in tables("README.md") if table[0][:2] == ["option", "default"]]
    figures = {row[0].rpartition("`--")[2].rstrip("`"): row[1] for row in rows[1:] if row[1][:1].isdigit()}
    sizes = {"max-body-bytes", "max-memory-bytes"}
    assert {"concurrency", "timeout-s", "connect-timeout-s", *sizes, "fail-on", "commit-every-s"} == set(figures)
    for option, default in figures.items():
        assert re.search(rf"--{option} [^(]*\(default: {default}\)", told), option


def test_the_architecture_names_exactly_the_direct_dependencies() -> None:
    used = {"rich"}
    for manifest in (ROOT / "crates").glob("*/Cargo.toml"):
        cargo = tomllib.loads(manifest.read_text(encoding="utf-8"))
        used |= {*cargo["dependencies"], *cargo.get("dev-dependencies", {})}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert ["rich"] == [re.split(r"[<>=~]", requirement)[0] for requirement in project["dependencies"]]
    named = {
        name
        for table in tables("ARCHITECTURE.md")
        if table[0][-1] == "why"
        for row in table[1:]
        for name in re.findall(r"`([^`]+)`", row[0])
    }
    assert used == named
