"""The help: a short one, the whole one, and a page for each group of flags."""

import json
import re
import shlex
from importlib import import_module

import pytest

from headgate._native import ERROR_KINDS
from headgate.cli import _fetch_flags
from headgate.cli._groups import GROUPS
from headgate.cli._parser import Flag, Parser
from support.command import VERBS, flags_in, mistakes, printed

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
    assert {flag.group for flag in _fetch_flags.parser().flags() if flag.dest != "help"} == set(GROUPS)
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
    names = re.findall(r"^  (\w+) ", printed("help"), re.MULTILINE)
    assert [*VERBS, "help", *GROUPS, "errors"] == names


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
    ],
)
def test_an_unknown_topic_is_refused_with_the_nearest_verb_group_or_flag(hint: str, topic: str) -> None:
    assert [f"unknown verb, group or flag {topic}: did you mean {hint}?"] == refused("help", topic)


@pytest.mark.parametrize("topic", ["xyzzy", "--xyzzy"])
def test_a_topic_that_is_like_nothing_is_refused_without_a_suggestion(topic: str) -> None:
    assert [f"unknown verb, group or flag {topic}"] == refused("help", topic)


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
    assert {"default": None, "default_means": "all", "help": "Read only the first N rows."}.items() <= rows.items()


def refused(*arguments: str) -> list[str]:
    return mistakes(*arguments, see="headgate --help")


@pytest.mark.parametrize("verb", ["status", "plan"])
def test_json_for_programs_has_one_spelling(verb: str) -> None:
    parser: Parser = import_module(f"headgate.cli.{verb}").parser()
    assert {"--as-json", "--no-as-json"} <= {name for flag in parser.flags() for name in flag.names}


def test_durations_have_the_placeholder_time() -> None:
    parsers: list[Parser] = [import_module(f"headgate.cli.{verb}").parser() for verb in VERBS]
    placeholders = {flag.metavar for parser in parsers for flag in parser.flags()}
    assert "TIME" in placeholders
    assert set() == placeholders & {"SECONDS", "S", "DURATION"}
