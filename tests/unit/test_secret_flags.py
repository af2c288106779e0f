"""Secrets on the command line: from files and from the environment, and in no message."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from headgate.cli import _fetch_flags
from headgate.jobs._job_options import FetchOptions
from support import command

SECRET = "sk-" + "secret"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


def read(*arguments: str) -> FetchOptions:
    parsed = _fetch_flags.read(["u.txt", "-o", "r", *arguments])
    assert parsed is not None
    return parsed.options


def mistakes(*arguments: str, source: str = "u.txt") -> list[str]:
    messages = command.mistakes("fetch", source, "-o", "r", *arguments)
    assert SECRET not in "\n".join(messages)
    return messages


def test_a_file_has_a_header_on_each_line_beside_those_that_are_typed(file: Path) -> None:
    file.write_text("Authorization: Bearer a:b\r\n\n  X-A : 1 \nX-A:2")
    expected = [("X-B", "3"), ("Authorization", "Bearer a:b"), ("X-A", "1"), ("X-A", "2"), ("X-C", "4")]
    assert expected == read("-H", "X-B: 3", "-H", f"@{file}", "-H", "X-C: 4").headers


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_token_and_a_user_come_from_a_file_without_its_line_end(ending: str, file: Path) -> None:
    file.write_text(f"me:{SECRET}{ending}")
    assert f"me:{SECRET}" == read("--bearer", f"@{file}").bearer
    assert f"me:{SECRET}".encode() == read("-u", f"@{file}").user


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        ({"bearer": SECRET}, ["--bearer", "@-"]),
        ({"user": SECRET.encode()}, ["--user", "@-"]),
        ({"headers": [("X-A", "1")]}, ["-H", "@-"]),
    ],
)
def test_secrets_come_from_standard_input(
    expected: dict[str, Any], arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = b"X-A: 1\n" if "headers" in expected else SECRET.encode() + b"\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
    if "user" in expected:
        assert ["--user has no password: write NAME:PASSWORD, or NAME: where it is empty"] == mistakes(*arguments)
    else:
        assert expected.items() <= vars(read(*arguments)).items()


def test_a_header_has_the_value_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", SECRET)
    assert [("X-A", "1"), ("X-Key", SECRET)] == read("--header-env", "X-Key=KEY", "-H", "X-A: 1").headers


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        (
            (
                "--bearer takes @FILE, @- for standard input, or env:NAME for a variable: every user of this machine"
                " can see what is typed"
            ),
            ["--bearer", SECRET],
        ),
        ("--bearer can't read 'no/such': no such file or directory", ["--bearer", "@no/such"]),
        ("--user can't read '/': is a directory", ["-u", "@/"]),
        ("--header can't read 'no/such': no such file or directory", ["-H", "@no/such"]),
        ("--user has no password: write NAME:PASSWORD, or NAME: where it is empty", ["-u", SECRET]),
        ("--user contains a control character", ["-u", f"me:{SECRET}\n"]),
        ("--header X-A contains a control character", ["-H", f"X-A: {SECRET}\x07x"]),
        ("--header has no colon: write 'Name: value', or @FILE for a file of such lines", ["-H", SECRET]),
        ("--header-env must be NAME=VARIABLE: the name of a header and that of a variable", ["--header-env", SECRET]),
        ("--header-env names a variable for X-Key that is not set", ["--header-env", f"X-Key={SECRET}"]),
        ("--header-env names a variable for X-Key that is empty", ["--header-env", "X-Key=EMPTY"]),
        (
            "--header-env gives x-a, which --header gives, too: leave one of them out",
            ["--header-env", "x-a=K", "-H", "X-A:"],
        ),
        (
            "--header-env gives Authorization, which --user gives, too: leave one of them out",
            ["--header-env", "Authorization=K", "-u", "me:"],
        ),
        (
            "--header-env gives x-a, which another --header-env gives, too: leave one of them out",
            ["--header-env", "X-A=K", "--header-env", "x-a=K"],
        ),
    ],
)
def test_each_mistake_is_named_and_no_value_is_shown(
    expected: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("K", SECRET)
    assert [expected] == mistakes(*arguments)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (f"X-A: 1\n{SECRET}\n".encode(), "has a line that has no colon: write 'Name: value', or @FILE for a file of"),
        (SECRET.encode() + b"\xff", "is not UTF-8"),
        (SECRET.encode() * 2**18, "is longer than 1 MiB"),
        (f"X-A: {SECRET}\0".encode(), "X-A contains a control character"),
    ],
)
def test_a_file_that_holds_no_headers_is_refused_and_not_shown(content: bytes, expected: str, file: Path) -> None:
    file.write_bytes(content)
    (message,) = mistakes("-H", f"@{file}")
    assert expected in message


def test_an_empty_token_is_refused(file: Path) -> None:
    file.write_text("\n")
    assert ["--bearer is empty"] == mistakes("--bearer", f"@{file}")


@pytest.mark.parametrize(
    ("expected", "source", "arguments"),
    [
        ("--bearer @- and INPUT - can't both read standard input", "-", ["--bearer", "@-"]),
        ("--data @- and --bearer @- can't both read standard input", "u.txt", ["-d", "@-", "--bearer", "@-"]),
    ],
)
def test_standard_input_is_read_once(
    expected: str, source: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"typed")))
    assert [expected] == mistakes(*arguments, source=source)
