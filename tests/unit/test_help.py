"""The help: a short one, the whole one, and a page for each group of flags."""

import json
import re
import shlex
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from headgate._native import ERROR_KINDS
from headgate.cli import _fetch_flags
from headgate.cli._exit_codes import MEANINGS, STATUS_MEANINGS
from headgate.cli._flag import Flag
from headgate.cli._groups import GROUPS
from headgate.jobs._options import ENTRIES, FETCH
from support.command import VERBS, flags_in, flags_of, mistakes, printed

if TYPE_CHECKING:
    from headgate.cli._parser import Parser

MOST_FLAGS = 12
"""The bound of flags in a group of `headgate fetch --help`."""


def flags(group: str) -> list[Flag]:
    """The flags of a group, as the help has them."""
    return [flag for flag in _fetch_flags.parser().flags() if flag.group == group and flag.is_shown]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the width that the help has without a terminal."""
    monkeypatch.setenv("COLUMNS", "100")


def test_the_short_help_has_15_flags_on_a_line_each_and_the_groups() -> None:
    usage, about, common, groups, see = printed("fetch", "-h").rstrip().split("\n\n")
    assert "usage: headgate fetch INPUT... -o OUT [flags]" == usage
    assert "Makes one request for each row of INPUT and writes the results into OUT." == about
    lines = common.splitlines()[1:]
    assert lines[0].startswith("  INPUT ")
    assert ["-o", "--url", "-H", "--bearer", "-d"] == [line.split()[0].rstrip(",") for line in lines[1:6]]
    assert 1 + 15 == len(lines)
    assert all(re.match(r"  [-I]", line) for line in lines), "a flag takes more than a line"
    assert list(GROUPS) == [line.split()[0] for line in groups.splitlines()[1:]]
    assert "`headgate help GROUP`" in see
    assert "`headgate fetch --help`" in see


def test_the_whole_help_has_every_flag_in_groups_of_at_most_12() -> None:
    text = printed("fetch", "--help")
    titles = [line.partition(":")[0] for line in text.splitlines() if re.match(r"[a-z]+: ", line)]
    assert ["usage", *GROUPS] == titles
    assert {} == {group: len(flags(group)) for group in GROUPS if not 1 <= len(flags(group)) <= MOST_FLAGS}
    assert {flag.group for flag in _fetch_flags.parser().flags() if flag.dest not in ("config", "help")} == set(GROUPS)
    assert {name for group in GROUPS for flag in flags(group) for name in flag.names} <= set(flags_in(text))


@pytest.mark.parametrize("group", GROUPS)
def test_the_page_of_a_group_has_its_flags_and_two_examples_that_use_them(group: str) -> None:
    page = printed("help", group)
    assert page.startswith(f"{group}: {GROUPS[group].about}\n\n")
    described, _, examples = page.partition("\n\nexamples:\n")
    assert [flag.usage() for flag in flags(group)] == re.findall(r"^  (-.*)$", described, re.MULTILINE)
    names = {name for flag in flags(group) for name in flag.names} | {"--no-location"}
    lines = examples.splitlines()
    assert 2 == len(lines)
    for line in lines:
        _, verb, *words = shlex.split(line)
        parser: Parser = import_module(f"headgate.cli.{verb}").parser()
        values = parser.read(words)
        assert values is not None
        assert [] == values.mistakes
        assert names & set(words), line


def test_the_page_of_a_group_describes_a_flag_in_whole_sentences() -> None:
    page = " ".join(printed("help", "retries").split())
    assert "Longest delay before the second attempt. It doubles with each further one" in page
    assert "Default: 3." in page
    assert "Can be repeated." in printed("help", "network")


def test_the_error_kinds_are_explained() -> None:
    page = printed("help", "errors")
    assert [name for name, _ in ERROR_KINDS] == re.findall(r"^  (\w+)", page, re.MULTILINE)
    assert "the TLS handshake failed" in page


def test_the_list_of_help_has_the_verbs_and_then_the_topics() -> None:
    names = re.findall(r"^  ([\w-]+) ", printed("help"), re.MULTILINE)
    assert [*VERBS, "help", *GROUPS, "errors", "ERROR_KIND", "exit-codes", "templates", "--as-json"] == names


def test_a_plan_refers_to_the_groups_of_fetch() -> None:
    page = printed("plan", "--help")
    own = re.findall(r"^  (--?[a-z-]+)", page.partition("\nother:")[0], re.MULTILINE)
    assert ["--assume-latency", "--probe", "--as-json", "--curl"] == own
    assert set(GROUPS) <= set(re.findall(r"^  (\w+) ", page, re.MULTILINE))
    assert "`headgate help GROUP`" in page


@pytest.mark.parametrize("typed", ["--retry-on", "retry-on", "retry_on"])
def test_the_page_of_a_flag_has_its_description_and_names_its_group(typed: str) -> None:
    usage, *description = printed("help", typed).splitlines()
    assert "  --retry-on FAILURES" == usage
    assert "Which failures are retried: error kinds, statuses" in description[0]
    assert "`headgate help retries` explains the flags of its group" == description[-1]


def test_a_topic_that_is_a_group_and_a_flag_is_the_group_unless_it_has_hyphens() -> None:
    assert printed("help", "retries").startswith("retries: which failures")
    assert printed("help", "--retries").startswith("  --retries N\n")
    assert printed("help", "-c").startswith("  -c, --concurrency N\n")


@pytest.mark.parametrize(
    ("hint", "topic"),
    [
        ("retries", "retris"),
        ("fetch", "fecth"),
        ("errors", "eror"),
        ("--max-rows", "max-rwos"),
        ("--retry-on", "--rety-on"),
        ("--if-exists", "if_exist"),
        ("templates", "templats"),
        ("unexpected_response", "unexpected-respons"),
    ],
)
def test_an_unknown_topic_is_refused_with_the_nearest_topic(hint: str, topic: str) -> None:
    assert [f"unknown topic {topic}: did you mean {hint}?"] == refused("help", topic)


@pytest.mark.parametrize("topic", ["xyzzy", "--xyzzy", "notes"])
def test_a_topic_that_is_like_nothing_is_refused_without_a_suggestion(topic: str) -> None:
    assert [f"unknown topic {topic}"] == refused("help", topic)


@pytest.mark.parametrize("topic", ["query", "--query"])
def test_a_topic_that_is_a_flag_of_another_program_is_refused_with_ours(topic: str) -> None:
    advice = "other programs' --query is a query in --url, as 'http://host/?q={q}'"
    assert [f"unknown topic {topic}: {advice}"] == refused("help", topic)


@pytest.mark.parametrize("topic", ["templates", "template"])
def test_templates_are_explained_in_15_lines_with_two_examples(topic: str) -> None:
    page = printed("help", topic)
    assert all(words in page for words in ("{column}", "{column|default}", "--json", "invalid_request", ".txt"))
    assert len(page.splitlines()) <= 15
    examples = [shlex.split(line) for line in page.splitlines() if line.startswith("  headgate ")]
    assert 2 == len(examples)
    for _, _, *words in examples:
        values = _fetch_flags.parser().read(words)
        assert values is not None
        assert [] == values.mistakes


@pytest.mark.parametrize("topic", ["exit-codes", "exit_codes", "exit-code"])
def test_the_exit_codes_are_explained_in_their_two_tables(topic: str) -> None:
    page = printed("help", topic)
    every, status = page.split("exit codes of headgate status:\n")
    assert every.startswith("exit codes of all verbs but headgate status:\n")
    assert [[str(code) for code in MEANINGS], [str(code) for code in STATUS_MEANINGS]] == [
        re.findall(r"^  (\d+) ", table, re.MULTILINE) for table in (every, status)
    ]


@pytest.mark.parametrize(("kind", "when"), ERROR_KINDS)
def test_each_error_kind_has_a_page_or_a_part_of_one(kind: str, when: str) -> None:
    pages = {" ".join(printed("help", topic).split()) for topic in (kind, kind.replace("_", "-"))}
    (page,) = pages
    assert f"An error kind: {when.replace('`', '')}." in page
    assert f"`headgate retry OUT --only {kind}`" in page
    is_retried = kind in f"{FETCH.entries['retry_on'].option.default},connect_timeout".split(",")
    assert is_retried == ("It is retried by default." in page)
    assert {*flags_in(page)} <= {*flags_of("fetch"), "--only"}


def test_the_page_of_an_error_kind_names_the_flags_that_decide_about_it() -> None:
    page = printed("help", "unexpected_response")
    assert page.startswith("  unexpected_response\n      An error kind: the response lacks a required value.")
    assert "See --require." in " ".join(page.split())


def test_what_is_a_flag_or_a_group_and_an_error_kind_has_both_on_its_page() -> None:
    assert re.search(r"(?s)^  --timeout TIME\n.*\n  timeout\n      An error kind: ", printed("help", "timeout"))
    assert re.search(r"(?s)^tls: .*\n  tls\n      An error kind: .*\nexamples:\n", printed("help", "tls"))


KINDS = {kind for kind, _ in ERROR_KINDS}


FLAGS_OF_OPTIONS = [option.flags_of(name)[-1] for name, option in ENTRIES.items() if option.group in GROUPS]


@pytest.mark.parametrize("topic", [*GROUPS, *FLAGS_OF_OPTIONS])
def test_options_are_flags_in_the_help(topic: str) -> None:
    # `headgate help --json` is all flags as JSON.
    page, _, _ = printed("help", topic.replace("--json", "json")).partition("\nexamples:")
    names = set(re.findall(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b", page))
    assert set() == (names & {*ENTRIES, "base_url"}) - KINDS
    assert not re.search(r"`|\(\)|\[\d|{\"", page.partition("`headgate ")[0])


def test_values_in_the_help_are_as_they_are_typed() -> None:
    page = " ".join(printed("help", "limits").split())
    assert 'A mapping such as "slow.example=2,*=auto" limits hosts by their names' in page
    assert "Default: no limit but --concurrency." in page
    assert 'as in "429,5xx"; unauthorized are 401' in printed("help", "--fail-on").replace("\n      ", " ")
    assert "or @FILE for a file with one on each line" in " ".join(printed("help", "--proxy").split())
    assert "the token in this file" in printed("help", "--bearer")
    assert "--network public" in printed("fetch", "--help")


@pytest.mark.parametrize("spelling", ["--as-json", "--json"])
def test_all_flags_are_printed_for_programs(spelling: str) -> None:
    groups = json.loads(printed("help", spelling))
    assert {group: [list(flag.names) for flag in flags(group)] for group in GROUPS} == {
        group: [entry["flags"] for entry in entries] for group, entries in groups.items()
    }
    (timeout,) = (entry for entry in groups["timeouts"] if entry["name"] == "timeout")
    assert (30, "30s", "seconds", "TIME") == tuple(
        timeout[key] for key in ("default", "default_means", "unit", "value")
    )
    (rows,) = (entry for entry in groups["input"] if entry["name"] == "max_rows")
    assert (None, "all") == (rows["default"], rows["default_means"])
    assert rows["help"].startswith("Read only the first N rows. ")


def refused(*arguments: str) -> list[str]:
    return mistakes(*arguments, see="headgate --help")


@pytest.mark.parametrize("verb", ["fetch", "plan", "retry", "status"])
def test_json_for_programs_has_one_spelling(verb: str) -> None:
    parser: Parser = import_module(f"headgate.cli.{verb}").parser()
    assert {"--as-json", "--no-as-json"} <= {name for flag in parser.flags() for name in flag.names}


def test_durations_have_the_placeholder_time() -> None:
    parsers: list[Parser] = [import_module(f"headgate.cli.{verb}").parser() for verb in VERBS]
    placeholders = {flag.metavar for parser in parsers for flag in parser.flags()}
    assert "TIME" in placeholders
    assert set() == placeholders & {"SECONDS", "S", "DURATION"}
