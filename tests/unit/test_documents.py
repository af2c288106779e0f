"""Everything that the documents name exists."""

import re
import tomllib
from pathlib import Path

import pytest

import write_docs
from support.command import VERBS, flags_in, flags_of, help_of
from support.documents import DOCUMENTS, PAGES, ROOT, anchors, links, tables, text

FOLDERS = ("crates", "python", "tests", "bench", "docs", "scripts", "requirements", ".ci")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_relative_link_leads_to_a_file(document: str) -> None:
    paths = [path for path, _ in links(document) if path]
    assert [] == [path for path in paths if not ((ROOT / document).parent / path).exists()]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_to_an_anchor_leads_to_a_heading(document: str) -> None:
    folder = (ROOT / document).parent
    linked = [(named(folder / path) if path else document, anchor) for path, anchor in links(document) if anchor]
    assert [] == [(page, anchor) for page, anchor in linked if anchor not in anchors(page)]


def named(path: Path) -> str:
    return path.resolve().relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_reached_from_the_readme(page: str) -> None:
    assert page in {"README.md"} | {path for path, _ in links("README.md")} | {
        named(ROOT / "docs" / path) for path, _ in links("docs/many-tasks.md") if path
    }


def test_the_readme_has_150_lines_at_most() -> None:
    assert len(text("README.md").splitlines()) <= 150


@pytest.mark.parametrize("command", ["make build", "make demo", "make test"])
def test_the_readme_shows_how_to_build_try_and_test_it(command: str) -> None:
    assert re.search(rf"^    {command} +#", text("README.md"), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_every_table_that_is_generated_is_what_the_code_says(page: str) -> None:
    assert text(page) == write_docs.filled(text(page)), "run `make docs`"


def test_the_types_of_options_are_those_of_the_engine() -> None:
    assert write_docs.KEYWORDS.read_text(encoding="utf-8") == write_docs.keywords(), "run `make docs`"


def test_the_description_of_the_package_is_the_readme_with_links_to_the_repository() -> None:
    description = text("python/README.md")
    assert description == write_docs.description(), "run `make docs`"
    assert len(links("README.md")) == description.count("](https://github.com/headgate/headgate/blob/v")


def test_every_table_that_can_be_generated_is_in_a_page() -> None:
    generated = [name for page in PAGES for name in re.findall(r"<!-- generated: (.+) -->", text(page))]
    assert sorted(write_docs.TABLES) == sorted(generated)


def test_a_generated_table_replaces_what_was_there() -> None:
    before = "one\n<!-- generated: exit codes -->\nold\n<!-- /generated -->\ntwo\n"
    after = write_docs.filled(before).splitlines()
    assert ["one", "<!-- generated: exit codes -->", "| exit code |  |"] == after[:3]
    assert "| 3 | the job finished, and some of its rows failed |" in after
    assert ["<!-- /generated -->", "two"] == after[-2:]


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


@pytest.mark.parametrize("page", PAGES)
def test_every_option_that_is_named_is_one_of_the_command(page: str) -> None:
    known = {verb: flags_of(verb) for verb in VERBS}
    # A flag without a verb is an option of any verb.
    known[""] = set().union(*known.values())
    assert [] == [(verb, flag) for verb, flag in typed_in(page) if flag not in known[verb]]


def typed_in(page: str) -> list[tuple[str, str]]:
    """Returns the flags in a page, each with the verb before it."""
    named: list[tuple[str, str]] = []
    for line in text(page).splitlines():
        # Flags are looked for in code and in lines of a console.
        for code in [line] if line.startswith("$ ") else re.findall(r"`([^`]+)`", line):
            verb = re.match(rf"(?:\$ )?headgate ({'|'.join(VERBS)})\b", code)
            if verb or code.startswith("-"):
                named += [
                    (verb[1] if verb else "", flag)
                    for flag in flags_in(re.sub("'[^']*'", "", code).partition(" | ")[0])
                ]
    return named


def test_flags_are_found_in_code_and_in_a_console() -> None:
    found = typed_in("README.md")
    assert ("", "--fail-on") in found
    assert ("serve", "--port") in found
    assert ("retry", "--only") in found


def test_every_option_of_fetch_is_on_its_page() -> None:
    missing = set(flags_in(help_of("fetch"))) - {flag for _, flag in typed_in("docs/fetch.md")}
    assert {"-h", "--help"} >= missing


def test_the_architecture_names_exactly_the_direct_dependencies() -> None:
    used = {"rich"}
    for manifest in (*(ROOT / "crates").glob("*/Cargo.toml"), ROOT / "fuzz/Cargo.toml"):
        cargo = tomllib.loads(manifest.read_text(encoding="utf-8"))
        of_targets = [target["dependencies"] for target in cargo.get("target", {}).values()]
        used |= {*cargo["dependencies"], *cargo.get("dev-dependencies", {})}.union(*of_targets)
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


def test_the_readme_is_short_and_so_is_each_of_its_three_quickstarts() -> None:
    assert len(text("README.md").splitlines()) <= 150
    quickstarts = re.findall(r"^## Quickstart: (.*?)(?=^## )", text("README.md"), re.MULTILINE | re.DOTALL)
    assert 3 == len(quickstarts)
    assert all(len(quickstart.split()) <= 400 for quickstart in quickstarts)
