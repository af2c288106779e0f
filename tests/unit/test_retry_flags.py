from pathlib import Path
from typing import Any

import pytest

from headgate import Job
from headgate.cli import _retry_flags
from headgate.cli._retry_flags import Command
from headgate.jobs._job_options import RetryOptions
from support import command


def read(*arguments: str) -> Command:
    parsed = _retry_flags.read(arguments)
    assert parsed is not None
    return parsed


def mistakes(*arguments: str) -> list[str]:
    return command.mistakes("retry", *arguments)


def test_the_directory_is_enough() -> None:
    assert Command(options=RetryOptions(output="results"), quiet=False, summary=None) == read("results")


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        ({"only": ("timeout", "status:5xx")}, ["--only", "timeout, status:5xx"]),
        ({"only": ("timeout", "connection_closed")}, ["--only", "timeout", "--only=connection_closed"]),
        ({"concurrency": 20}, ["-c", "20"]),
        ({"threads": 2}, ["--threads", "2"]),
        ({"timeout": 120.0}, ["--timeout", "120"]),
        ({"connect_timeout": 2.0}, ["--connect-timeout", "2"]),
        ({"shutdown_timeout": 0.0}, ["--shutdown-timeout", "0"]),
        ({"max_body_size": 1024}, ["--max-body-size", "1KiB"]),
        ({"part_size": 1024}, ["--part-size", "1KiB"]),
        ({"headers": [("A", "1"), ("A", "2")]}, ["-H", "A: 1", "--header", "A:2"]),
        ({"user": b"me:"}, ["--user", "me:"]),
        ({"secret_headers": ("x-a",)}, ["--secret-header", "x-a"]),
        ({"data": b"a=1"}, ["-d", "a=1"]),
        ({"cacert": "ca.pem"}, ["--cacert", "ca.pem"]),
        ({"rate": "5/s", "retries": 9}, ["--rate", "5/s", "--retries", "9"]),
        ({"rate_per_host": "a.example=1/s"}, ["--rate-per-host", "a.example=1/s"]),
        ({"insecure": True}, ["--insecure"]),
        ({"dns_server": "127.0.0.1:5353"}, ["--dns-server", "127.0.0.1:5353"]),
    ],
)
def test_each_flag_sets_the_option_of_its_name(expected: dict[str, Any], arguments: list[str]) -> None:
    assert RetryOptions(output="results", **expected) == read("results", *arguments).options


def test_quiet_and_the_file_for_the_summary_are_no_options_of_the_job(tmp_path: Path) -> None:
    file = str(tmp_path / "s.json")
    parsed = read("results", "-q", "--summary", file)
    assert (True, file) == (parsed.quiet, parsed.summary)


def test_all_mistakes_of_a_command_line_are_named_at_once() -> None:
    assert {
        "OUT is missing: name the directory of a job",
        "--concurrency must be at least 1, not 0",
        "--header has no colon: write 'Name: value', or @FILE for a file of such lines",
        "unknown flag --onyl: did you mean --only?",
    } == set(mistakes("-c", "0", "-H", "Accept", "--onyl=timeout"))


@pytest.mark.parametrize("kinds", ["timeout,", "", ","])
def test_an_empty_kind_is_not_all_of_them(kinds: str) -> None:
    assert ["--only names an empty kind: write kinds and statuses such as timeout,503"] == mistakes(
        "results", "--only", kinds
    )


def test_results_on_standard_output_cannot_be_retried() -> None:
    assert ["OUT must be the directory of a job: what went to standard output is not recorded"] == mistakes("-")


def test_every_option_has_its_flag() -> None:
    text = command.help_of("retry")
    assert set() == command.flags_of_options(Job.retry) - set(command.flags_in(text))


def test_the_help_explains_its_own_flags_and_names_those_of_fetch() -> None:
    lines = command.help_of("retry").splitlines()
    assert any(line.startswith("  --only KINDS ") for line in lines)
    assert not any(line.startswith("  -c, --concurrency") for line in lines)
    (limits,) = (line for line in lines if line.startswith("  limits "))
    assert "--concurrency, --concurrency-per-host, --rate" in limits
    assert "`headgate help GROUP`" in "\n".join(lines)
