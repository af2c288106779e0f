"""Flags whose values may be secrets: no message shows one, and files or variables keep them out of process lists."""

import os
from typing import Final

from headgate.cli._files import FROM_FILE, HEADER_ENV, REFERENCES, Files
from headgate.cli._parser import Parser
from headgate.cli._values import Values
from headgate.jobs._secret_file import SecretBytes, SecretText, lines_of

_AUTHORIZATION: Final = "authorization"

Headers = list[tuple[str, str]]


def add_from_environment(parser: Parser) -> None:
    """Adds the flag for headers whose values are in the environment."""
    parser.value(
        HEADER_ENV,
        "--header-env",
        metavar="NAME=VARIABLE",
        text="send this header with the value of an environment variable; can be repeated",
        repeats=True,
    )


def headers(values: Values, name: str, files: Files) -> Headers | None:
    """Returns headers from the command line, from lines of files, and from the environment."""
    found = typed_headers(values, name, files)
    return [*found, *_from_environment(values, {header.lower(): values.name_of(name) for header, _ in found})] or None


def typed_headers(values: Values, name: str, files: Files) -> Headers:
    """Returns headers from the command line and from lines of files."""
    found = Headers()
    for text in values.texts(name):
        secret = (files.secret(name, text) or "") if text.startswith(FROM_FILE) else text
        lines = secret.splitlines() if text.startswith(FROM_FILE) else [text]
        where = f"{text!r} has a line that " if text.startswith(FROM_FILE) else ""
        for line in filter(str.strip, lines):
            header, colon, value = line.partition(":")
            if not colon:
                values.wrong(name, f"{where}has no colon: write 'Name: value', or @FILE for a file of such lines")
                break
            value = value.strip()
            found.append((header.strip(), SecretText(value, secret.path) if isinstance(secret, SecretText) else value))
    return found


def _from_environment(values: Values, given_by: dict[str, str]) -> Headers:
    """Returns headers from the environment; `given_by` has the flags that gave other headers, by name."""
    for name in filter(values.is_given, ("bearer", "user")):
        given_by[_AUTHORIZATION] = values.name_of(name)
    found = Headers()
    for text in values.texts(HEADER_ENV):
        header, equals, variable = text.partition("=")
        if not (header and equals and variable):
            values.wrong(HEADER_ENV, "must be NAME=VARIABLE: the name of a header and that of a variable")
            continue
        if header.lower() in given_by:
            other = given_by[header.lower()]
            values.wrong(HEADER_ENV, f"gives {header}, which {other} gives, too: leave one of them out")
            continue
        given_by[header.lower()] = "another --header-env"
        value = os.environ.get(variable)
        if not value:
            # The text may be the value itself by mistake, so the message does not contain it.
            state = "not set" if value is None else "empty"
            values.wrong(HEADER_ENV, f"names a variable for {header} that is {state}")
            continue
        found.append((header, value))
    return found


def token(values: Values, name: str, files: Files) -> str | None:
    """Returns a token from a file or a variable."""
    text = values.text(name)
    if text is not None and not text.startswith(REFERENCES):
        advice = "takes @FILE, @- for standard input, or env:NAME for a variable"
        values.wrong(name, f"{advice}: every user of this machine can see what is typed")
        return None
    return None if text is None else files.reference(name, text)


def lines(values: Values, name: str, files: Files) -> tuple[str, ...]:
    """Returns values from the command line, and from lines of files and variables."""
    texts = [files.reference(name, text) if text.startswith(REFERENCES) else text for text in values.texts(name)]
    return tuple(line for text in texts for line in lines_of(text or ""))


def user(values: Values, name: str, files: Files) -> bytes | None:
    """Returns a user name and a password, from the command line, a file or a variable."""
    text = values.text(name)
    if text is not None and text.startswith(REFERENCES):
        text = files.reference(name, text)
    return None if text is None else SecretBytes.encoded(text)
