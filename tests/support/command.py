"""Runs command lines in this process, up to the point where a job would start."""

import inspect
import io
import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module

from headgate import cli

VERBS = (
    "fetch",
    "plan",
    "status",
    "report",
    "retry",
    "set",
    "pause",
    "unpause",
    "show",
    "files",
    "verify",
    "clean",
    "serve",
    "demo",
    "completion",
)


def mistakes(*arguments: str, see: str = "") -> list[str]:
    """Runs a command line that must be refused, and returns the messages about it.

    `see` is the command that the last line recommends: by default the help of the verb.
    """
    *lines, last = refusal(*arguments)
    assert f"see `{see or f'headgate {arguments[0]} --help'}`" == last
    assert all(line.startswith("error: ") for line in lines), lines
    return [line.removeprefix("error: ") for line in lines]


def refusal(*arguments: str) -> list[str]:
    """Runs a command line that must be refused, and returns all that it prints."""
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        code = cli.run(arguments)
    assert (2, "") == (code, output.getvalue()), errors.getvalue()
    return errors.getvalue().splitlines()


def help_of(*verb: str) -> str:
    """The help of a verb, or of the command."""
    output = io.StringIO()
    with redirect_stdout(output):
        assert 0 == cli.run([*verb, "--help"])
    return output.getvalue()


def flags_of(verb: str) -> set[str]:
    """All flags of a verb, also those that its help omits."""
    return {name for flag in import_module(f"headgate.cli.{verb}").parser().flags() for name in flag.names}


def flags_in(text: str) -> list[str]:
    """The flags in a text, in their order."""
    return [match[0] for match in re.finditer(r"(?<![\w-])(?:--?[a-zA-Z][a-z0-9.-]*|-[46]\b)(?<!\.)", text)]


SPELLED_OTHERWISE = {
    "header_templates": "--header-template",
    "headers": "--header",
    "http1_1": "--http1.1",
    "secret_headers": "--secret-header",
}
"""Options whose flags are not their names with hyphens."""


def flags_of_options(function: Callable[..., object]) -> set[str]:
    """The flags of the options that a function takes as keyword arguments; `auth` and `progress` have none."""
    parameters = inspect.signature(function).parameters.values()
    names = {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY} - {"auth", "progress"}
    return {SPELLED_OTHERWISE.get(name, f"--{name.replace('_', '-')}") for name in names}


def printed(*arguments: str) -> str:
    """Runs a command line that must succeed, and returns what it prints."""
    output = io.StringIO()
    with redirect_stdout(output):
        assert 0 == cli.run(arguments)
    return output.getvalue()
