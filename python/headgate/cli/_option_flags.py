"""Flags that are made of the entries of options, and what verbs that run a job have in common besides."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from headgate import _format
from headgate._option import Entry, OptionSet
from headgate.cli._parser import Parser, Values
from headgate.jobs._job_options import JobOptions
from headgate.jobs._option_entry import STANDARD_STREAM, GivenAs, JobOption

_UNSAID: Final = (None, False, True, ())
"""Defaults of which nothing is said where the entry has no words for them."""

_REPEATING: Final[tuple[GivenAs, ...]] = ("columns", "headers", "kinds")


def add(parser: Parser, options: OptionSet[Any], group: str) -> None:
    """Adds the flags of a group of the help."""
    for name, option in typed(options, group).items():
        choices = _literals(options.entries[name])
        flags, text = option.flags_of(name), _text(option)
        if isinstance(option.default, bool):
            parser.switch(name, *flags, text=text)
        else:
            repeats = option.given_as in _REPEATING
            parser.value(name, *flags, metavar=option.metavar, text=text, repeats=repeats, choices=choices)


def read(values: Values, options: OptionSet[Any], *, source: str = "") -> dict[str, Any]:
    """What was typed of them; `source` may be what reads standard input already."""
    given = {name: _read(values, options.entries[name], option, source) for name, option in typed(options).items()}
    return {name: value for name, value in given.items() if value is not None}


def add_progress(parser: Parser) -> None:
    """Adds the group of what is told."""
    parser.group("progress")
    parser.switch("quiet", "-q", "--quiet", text="no progress and no summary; errors are still told")
    parser.value("summary", "--summary", metavar="FILE", text="write the summary as JSON")


def check(values: Values, options: JobOptions) -> None:
    """Raises `CommandLineError` with every mistake there is, in what was typed or in the options made of it."""
    for mistake in options.mistakes():
        if not values.is_wrong(mistake.option):
            values.wrong(mistake.option, mistake.message)
    values.check()


def summary_path(values: Values) -> Path | None:
    """The file for the summary; that it cannot be written is better known before the job than after it."""
    text = values.text("summary")
    if text is None:
        return None
    path = Path(text)
    if not text or path.is_dir():
        values.wrong("summary", f"must be a file, not {text!r}")
    elif not path.parent.is_dir():
        values.wrong("summary", f"cannot be written: there is no directory {str(path.parent)!r}")
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        values.wrong("summary", f"cannot be written: no permission for {text!r}")
    return path


def typed(options: OptionSet[Any], group: str = "") -> Mapping[str, JobOption]:
    """Those that have a flag: all of them, or those of a group of the help."""
    all_options = {name: entry.option for name, entry in options.entries.items()}
    return {
        name: option
        for name, option in all_options.items()
        if isinstance(option, JobOption) and option.group and group in ("", option.group)
    }


def default_of(option: JobOption) -> str:
    """The default as it would be typed, or in words; empty where there is nothing to say."""
    if option.default_means:
        return option.default_means
    if option.default in _UNSAID:
        return ""
    if option.given_as == "size":
        return _format.size(option.default).replace(".0 ", " ").replace(" ", "")
    return f"{option.default:g}" if isinstance(option.default, float) else str(option.default)


def _literals(entry: Entry) -> tuple[str, ...] | None:
    """The values that there are, where they are few."""
    types = (entry.type, *get_args(entry.type))
    return next((get_args(each) for each in types if get_origin(each) is Literal), None)


def _text(option: JobOption) -> str:
    """What the help says: the first sentence of the entry, and the default."""
    first = option.help.partition(". ")[0].removesuffix(".").replace("`", "")
    # An acronym keeps its capitals.
    text = option.typed or (first if first[:2].isupper() else first[0].lower() + first[1:])
    default = default_of(option).replace("`", "")
    return f"{text} (default: {default})" if default else text


def _read(values: Values, entry: Entry, option: JobOption, source: str) -> object:
    """The value, `None` where none was typed, or none that can be read."""
    name = entry.name
    if isinstance(option.default, bool):
        return not option.default if values.switch(name) else None
    readers: dict[GivenAs, Callable[[], object]] = {
        "data": lambda: _data(values, name, source),
        "headers": lambda: _headers(values, name),
        "columns": lambda: tuple(values.texts(name)),
        "kinds": lambda: tuple(kind.strip() for text in values.texts(name) for kind in text.split(",")),
        "size": lambda: values.size_or_none(name),
    }
    reader = readers.get(option.given_as)
    if reader is not None:
        return reader()
    types = (entry.type, *get_args(entry.type))
    if float in types:
        return values.seconds_or_none(name)
    return values.whole_or_none(name) if int in types else values.text(name)


def _headers(values: Values, name: str) -> list[tuple[str, str]] | None:
    headers = []
    for text in values.texts(name):
        header, colon, value = text.partition(":")
        if colon:
            headers.append((header.strip(), value.strip()))
        else:
            values.wrong(name, f"{text!r} is no header: write 'Name: value'")
    return headers or None


def _data(values: Values, name: str, source: str) -> bytes | None:
    text = values.text(name)
    if text is None or not text.startswith("@"):
        return None if text is None else text.encode()
    file = text[1:]
    if file != STANDARD_STREAM:
        try:
            return Path(file).read_bytes()
        except (OSError, ValueError) as error:
            values.wrong(name, f"cannot read {file!r}: {_reason(error)}")
            return b""
    if source == STANDARD_STREAM:
        values.wrong(name, "@- and INPUT - cannot both read standard input")
        return b""
    return sys.stdin.buffer.read()


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
