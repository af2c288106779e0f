"""The command `headgate` up to the point where it needs the engine."""

import re
import signal
import subprocess
import sys
from typing import Any

import pytest

from headgate import InputError, InternalError, OutputError, Summary, UsageError, __version__, cli
from headgate.cli import _ending, fetch
from headgate.cli._groups import ERRORS, GROUPS
from support.command import VERBS
from support.figures import RESUMED, summary_json


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    pattern = rf"headgate {re.escape(__version__)} \(([0-9a-f]{{8,}}, )?\w+-\w+-[\w-]+\)\n"
    assert re.fullmatch(pattern, capsys.readouterr().out)


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"]])
def test_the_help_names_every_verb_and_no_other(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(arguments) == 0
    verbs = capsys.readouterr().out.split("\n\n")[2]
    assert [*VERBS, "help"] == re.findall(r"^  (\w+) ", verbs, re.MULTILINE)


def test_without_a_verb_the_help_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: headgate VERB" in captured.err


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: headgate {verb}")
    assert f"examples:\n  headgate {verb}" in text


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_is_what_its_flag_prints(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert cli.run(["help", verb]) == 0
    assert text == capsys.readouterr().out


@pytest.mark.parametrize("columns", [40, 60, 100])
@pytest.mark.parametrize("arguments", [[], ["fetch", "-h"], *[["help", topic] for topic in (*VERBS, *GROUPS, ERRORS)]])
def test_no_line_of_prose_in_the_help_is_wider_than_the_terminal(
    columns: int, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert cli.run(arguments or ["help"]) == 0
    # Neither commands nor words are broken.
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(("  headgate ", "usage: "))]
    assert [] == [line for line in lines if len(line) > columns and len(line.split()) > 1]


def test_python_runs_the_command_by_its_name() -> None:
    done = subprocess.run([sys.executable, "-m", "headgate", "--version"], check=True, capture_output=True, text=True)
    assert done.stdout.startswith(f"headgate {__version__} (")


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        (f"error: unknown verb {'x' * 300}\nsee `headgate --help`\n", ["x" * 300]),
        ("error: unknown verb fecth: did you mean fetch?\nsee `headgate --help`\n", ["fecth"]),
        (
            "error: unknown verb u.txt: did you mean headgate fetch u.txt?\nsee `headgate --help`\n",
            ["u.txt", "-o", "r"],
        ),
        (
            "error: unknown verb http://h/[1]: did you mean headgate fetch 'http://h/[1]'?\nsee `headgate --help`\n",
            ["http://h/[1]"],
        ),
        ("error: unknown flag -o: did you mean headgate fetch ... -o?\nsee `headgate --help`\n", ["-o", "r", "u.txt"]),
        ("error: unknown topic fecth: did you mean fetch?\nsee `headgate --help`\n", ["help", "fecth"]),
        (
            "error: SHELL must be one of bash, zsh, fish, not csh\nsee `headgate completion --help`\n",
            ["completion", "csh"],
        ),
        ("error: SHELL is missing: one of bash, zsh, fish\nsee `headgate completion --help`\n", ["completion"]),
        ("error: unknown verb xyzzy\nsee `headgate --help`\n", ["xyzzy"]),
        ("error: unknown flag --versoin: did you mean --version?\nsee `headgate --help`\n", ["--versoin"]),
        ("error: '\\udcff' is not UTF-8\nsee `headgate --help`\n", ["fetch", "\udcff"]),
        (
            (
                "error: OUT is missing: name a directory of results\n"
                "error: --rows must be at least 0, not -1\n"
                "see `headgate show --help`\n"
            ),
            ["show", "-n", "-1"],
        ),
        (
            "error: --rows must be at most 1000000, not 1000001\nsee `headgate show --help`\n",
            ["show", "results", "-n", "1000001"],
        ),
        (
            (
                "error: --port must be at most 65535, not 99999\n"
                "error: --threads must be at least 1, not 0\n"
                "error: --status must be at least 200, not 100\n"
                "error: --delay must be a duration such as 1.5s, or a range such as 0..3s, not '3..1'\n"
                "error: --delay-whole must be whole seconds, as 0..3s\n"
                "see `headgate serve --help`\n"
            ),
            [
                "serve",
                "--port=99999",
                "--threads=0",
                "--status=100",
                "--delay=3..1",
                "--delay-whole=0.5",
            ],
        ),
        (
            (
                "error: --threads must be at most 1024, not 99999999999999999999999\n"
                "error: --body-size must be at most 1073741824, not 1099511627776\n"
                "see `headgate serve --help`\n"
            ),
            ["serve", "--threads=99999999999999999999999", "--body-size=1TiB"],
        ),
        (
            "error: --delay-whole excludes --delay: give one of them\nsee `headgate serve --help`\n",
            ["serve", "--delay", "0..3", "--delay-whole", "0..3"],
        ),
        (
            (
                "error: --capacity must be at least 1, not 0\n"
                "error: --api-burst must be at least 1, not -1\n"
                "error: --api-rate must be a rate, such as 500/s, 1000000/m or 5/2s, not '500'\n"
                "error: --api-tokens must be a rate, such as 500/s, 1000000/m or 5/2s, not '0/s'\n"
                "error: --api-concurrency must be at least 1, not 0\n"
                "error: --api-fail-first must be a percentage from 0 to 100, not '101%'\n"
                "see `headgate serve --help`\n"
            ),
            [
                "serve",
                "--capacity=0",
                "--api-burst=-1",
                "--api-rate=500",
                "--api-tokens=0/s",
                "--api-concurrency=0",
                "--api-fail-first=101%",
            ],
        ),
        (
            (
                "error: --refuse needs --capacity\n"
                "error: --api-burst needs a rate, such as --api-rate 500/s\n"
                "error: --api-per-host needs a limit, such as --api-rate 500/s\n"
                "see `headgate serve --help`\n"
            ),
            ["serve", "--refuse", "--api-per-host", "--api-burst", "5"],
        ),
        (
            (
                "error: --cert needs --key\n"
                "error: --cert excludes --self-signed\n"
                "error: --http2-streams needs --http2\n"
                "see `headgate serve --help`\n"
            ),
            ["serve", "--cert", "a.pem", "--self-signed", "b.pem", "--http2-streams", "5"],
        ),
        ("error: --rows must be at least 1, not 0\nsee `headgate demo --help`\n", ["demo", "--rows", "0"]),
    ],
)
def test_mistakes_are_named_and_exit_with_2(
    expected: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == 2
    assert ("", expected) == capsys.readouterr()


@pytest.mark.parametrize(
    ("expected", "error"), [(2, UsageError("a")), (2, InputError("a")), (2, OutputError("a")), (1, InternalError("a"))]
)
def test_an_error_of_the_job_is_one_line_and_an_exit_code(
    expected: int, error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_arguments: object) -> int:
        raise error

    monkeypatch.setattr(fetch, "main", fail)
    assert expected == cli.run(["fetch", "urls.txt"])
    assert ("", "error: a\n") == capsys.readouterr()


@pytest.mark.parametrize(
    ("expected", "changes", "stopped_by"),
    [
        (0, {"failed": 0}, None),
        (3, {"failed": 1}, None),
        (3, {"failed": 0, "job": RESUMED}, None),
        (0, {"failed": 0, "job": RESUMED | {"failed": 0}}, None),
        (4, {"failed": 1, "interrupted": True, "stopped_by": "all rows failed"}, None),
        (130, {"failed": 1, "interrupted": True, "stopped_by": "all rows failed"}, signal.SIGINT),
        (1, {"failure": {"kind": "output", "message": "disk full"}, "stopped_by": "all rows failed"}, None),
        (3, {"failed": 1, "stopped_by": None}, None),
        (130, {"failed": 1, "interrupted": True}, signal.SIGINT),
        (143, {"failed": 0, "interrupted": True}, signal.SIGTERM),
        (129, {"failed": 0, "interrupted": True}, signal.SIGHUP),
        (141, {"failed": 1, "interrupted": True, "reader_gone": True}, None),
        (130, {"failed": 1, "interrupted": True, "reader_gone": True}, signal.SIGINT),
        (2, {"failure": {"kind": "input", "message": "cut short"}}, None),
        (2, {"failure": {"kind": "usage", "message": "too many"}}, None),
        (1, {"failure": {"kind": "output", "message": "disk full"}}, None),
        (1, {"failure": {"kind": "internal", "message": "a fault"}}, signal.SIGINT),
    ],
)
def test_the_exit_code_tells_how_the_job_ended(
    expected: int, changes: dict[str, Any], stopped_by: signal.Signals | None
) -> None:
    assert expected == _ending.exit_code(Summary.from_json(summary_json(**changes)), stopped_by)
