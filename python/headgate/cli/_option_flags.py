"""Flags that are made from the entries of options, and other parts that the verbs which run a job share."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from headgate import _format
from headgate._message import Mention, spelled
from headgate._option import OptionSet
from headgate.cli import _secret_flags
from headgate.cli._files import FROM_FILE, Files
from headgate.cli._groups import GROUPS, PROGRESS
from headgate.cli._parser import Parser
from headgate.cli._values import Values
from headgate.jobs._as_flag import as_flag
from headgate.jobs._job_options import JobOptions
from headgate.jobs._option_entry import STANDARD_STREAM, JobOption
from headgate.jobs._options import ENTRIES, FETCH

_UNSAID: Final = (None, False, True, ())
"""Defaults that the help omits unless the entry has `default_means`."""

_REPEATING: Final[tuple[str, ...]] = (
    "columns",
    "headers",
    "header_templates",
    "kinds",
    "limit_per_host",
    "list",
    "names",
    "ports",
    "proxies",
    "rate_per_host",
    "selection",
    "texts",
)

_CODE: Final = re.compile("`([^`]+)`")
_PAIR: Final = re.compile(r'"([^"]+)": "?([^",}]+)')
_PYTHON_ALONE: Final = re.compile(r" or (?:`[\[(][^`]*`|a `base_url`)")
"""Alternatives that can't be typed: lists, tuples, and an option of clients."""

LOG_FORMATS: Final = ("text", "json")

_NO_OPTIONS: Final = ("method", "headers", "redirects", "json", "timeout", "connect_timeout", "total_timeout")
"""Options whose names stand for something else in texts of other options: columns, types and error kinds."""

_TYPED_OTHERWISE: Final = ("data", "header_templates", "headers", "token", "user")
"""Kinds of values that flags and keywords take in different forms, so that the help has the text of the flag only."""


def add_groups(parser: Parser, options: OptionSet[Any], *, is_shown: bool = True) -> None:
    """Adds the flags of all groups, which the help shows or omits."""
    for name in GROUPS:
        if name != PROGRESS and typed(options, name):
            start_group(parser, name, is_shown=is_shown)
            add(parser, options, name)


def start_group(parser: Parser, name: str, *, is_shown: bool = True) -> None:
    """Starts one of the groups."""
    parser.group(name, about=GROUPS[name].about, is_shown=is_shown)


def add(parser: Parser, options: OptionSet[Any], group: str) -> None:
    """Adds the flags of the options of a group."""
    for name, option in typed(options, group).items():
        flags, text = option.flags_of(name), _text(option)
        if isinstance(option.default, bool):
            # The description of an option that is on by default says what its flag turns off.
            parser.switch(name, *flags, text=text, details="" if option.default else _plain(option.help))
        else:
            parser.value(
                name,
                *flags,
                metavar=option.metavar,
                text=text,
                default=_plain(default_of(option)),
                details="" if option.given_as in _TYPED_OTHERWISE else _plain(option.help),
                repeats=option.given_as in _REPEATING,
                choices=option.choices,
                has_signs=option.given_as == "failures",
            )
        if option.given_as == "headers":
            _secret_flags.add_from_environment(parser)


def read(values: Values, options: OptionSet[Any], *, inputs: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the typed values; one of the `inputs` may be standard input."""
    files = Files(values, taken_by="INPUT -" if STANDARD_STREAM in inputs else "")
    given = {name: _read(values, name, option, files) for name, option in typed(options).items()}
    return {name: value for name, value in given.items() if value is not None}


def read_texts(values: Values, options: OptionSet[Any]) -> dict[str, str]:
    """Returns the typed values as text."""
    known = typed(options)
    given = {
        name: _joined(values, name) if option.given_as in _REPEATING else values.text(name)
        for name, option in known.items()
    }
    return {
        name: _with_path(text) if known[name].given_as == "token" else text
        for name, text in given.items()
        if text is not None
    }


def _with_path(text: str) -> str:
    """Returns `@FILE` with the absolute path of the file: the job that reads it may run in another directory."""
    is_file = text.startswith(FROM_FILE) and text != FROM_FILE + STANDARD_STREAM
    return FROM_FILE + str(Path(text.removeprefix(FROM_FILE)).absolute()) if is_file else text


def add_progress(parser: Parser, *, is_shown: bool = True) -> None:
    """Adds the flags for progress and summary."""
    start_group(parser, PROGRESS, is_shown=is_shown)
    text = "no progress; in place of the summary, one line if rows failed or it stopped early"
    parser.switch("quiet", "-q", "--quiet", text=text)
    parser.value("summary", "--summary", metavar="FILE", text="write the summary as JSON to this file")
    parser.switch("as_json", "--as-json", text="print the summary as JSON on standard output")
    add(parser, FETCH, PROGRESS)
    text = "write records with times and levels to standard error, as text or JSON, instead of a live display"
    parser.value("log_format", "--log-format", metavar="FORMAT", text=text, choices=LOG_FORMATS)
    text = "append the records to this file, beside what standard error shows"
    parser.value("log_file", "--log-file", metavar="FILE", text=text)
    text = "the time between two records of the progress"
    parser.value("log_interval", "--log-interval", metavar="TIME", text=text, default="10s")


def check(values: Values, options: JobOptions) -> None:
    """Raises `CommandLineError` with all mistakes of the command line and of the options made of it."""
    for mistake in options.mistakes():
        if not values.is_wrong(mistake.option):
            values.wrong(mistake.option, spelled(mistake.pieces, as_flag))
    values.check()


def log_of(values: Values) -> dict[str, Any]:
    """Returns the attributes of `Log` that were typed, and checks before the job that its file can be written."""
    file, interval_s = values.text("log_file"), values.seconds_or_none("log_interval")
    if interval_s is not None and not interval_s > 0:
        values.wrong("log_interval", "must be more than 0 seconds")
    if file is not None:
        _check_file(values, "log_file", file)
    typed = {"format": values.text("log_format"), "file": file, "interval_s": interval_s}
    return {name: value for name, value in typed.items() if value is not None}


def _check_file(values: Values, name: str, text: str) -> None:
    """Reports a file that can't be written."""
    path = Path(text)
    if not text or path.is_dir():
        values.wrong(name, f"must be a file, not {text!r}")
    elif not path.parent.is_dir():
        values.wrong(name, f"can't be written: there is no directory {str(path.parent)!r}")
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        values.wrong(name, f"can't be written: {text!r} is not writable")


def summary_file(values: Values, output: str | None) -> str | None:
    """Returns the file for the summary, or `-`, and checks before the job that it can be written."""
    text = values.text("summary")
    as_json = values.switch("as_json")
    if as_json and text is not None:
        values.wrong("summary", "and --as-json are two places for the summary: leave one of them out")
    text = STANDARD_STREAM if as_json else text
    if text is None:
        return None
    if text != STANDARD_STREAM:
        _check_file(values, "summary", text)
    elif output == STANDARD_STREAM:
        name, both = ("as_json" if as_json else "summary"), "and --output - can't both write to standard output"
        values.wrong(name, f"{both}: name a file with --summary")
    return text


def typed(options: OptionSet[Any], group: str = "") -> Mapping[str, JobOption]:
    """Returns the options that have a flag: all of them, or those of a group of the help."""
    all_options = {name: entry.option for name, entry in options.entries.items()}
    return {
        name: option
        for name, option in all_options.items()
        if isinstance(option, JobOption) and option.group and group in ("", option.group)
    }


def default_of(option: JobOption) -> str:
    """Returns the default as it would be typed, or in words; empty if the help omits it."""
    if option.default_means:
        return option.default_means
    if option.default in _UNSAID:
        return ""
    if option.given_as == "size":
        return _format.size(option.default).replace(".0 ", " ").replace(" ", "")
    return f"{option.default:g}s" if option.given_as == "seconds" else str(option.default)


def _joined(values: Values, name: str) -> str | None:
    """Returns the values of a flag that may be repeated, separated by commas; `None` if there are none."""
    texts = values.texts(name)
    return ",".join(texts) if texts else None


def _listed(texts: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of a flag that may be repeated, and that may have several separated by commas."""
    return tuple(filter(None, (name.strip() for text in texts for name in text.split(","))))


def _text(option: JobOption) -> str:
    """Returns the description in one line: `flag_help` or the first sentence of the entry."""
    first = _plain(option.help.partition(". ")[0].removesuffix("."))
    # An acronym keeps its capitals.
    return option.flag_help or (first if first[:2].isupper() else first[0].lower() + first[1:])


def _plain(text: str) -> str:
    """Returns a text of an entry as the command line has it: options are flags, and values are as they are typed."""
    typed = _PYTHON_ALONE.sub("", text).replace("the path of a file", "@FILE for a file")
    return _CODE.sub(lambda found: _typed(found[1]), typed)


def _typed(code: str) -> str:
    """Returns code that stands between backquotes in a text, as it is typed."""
    name, equals, value = code.partition("=")
    if name in ENTRIES and name not in _NO_OPTIONS:
        return as_flag(Mention(name, value.strip('"') if equals else None))
    if code.startswith("{") and ":" in code and '"' in code:
        pairs = (f"{host}={limit}" for host, limit in _PAIR.findall(code))
        return f'"{",".join(pairs)}"'
    return code


def _read(values: Values, name: str, option: JobOption, files: Files) -> object:
    """The value, `None` where none was typed, or none that can be read."""
    if isinstance(option.default, bool):
        return not option.default if values.switch(name) else None
    readers: dict[str, Callable[[], object]] = {
        "data": lambda: files.data(name),
        "headers": lambda: _secret_flags.headers(values, name, files),
        "header_templates": lambda: _secret_flags.typed_headers(values, name, files) or None,
        "token": lambda: _secret_flags.token(values, name, files),
        "user": lambda: _secret_flags.user(values, name, files),
        "json": lambda: files.text(name),
        "columns": lambda: _listed(values.texts(name)),
        "list": lambda: _listed(values.texts(name)),
        "selection": lambda: tuple(values.texts(name)),
        "names": lambda: tuple(values.texts(name)),
        "texts": lambda: tuple(values.texts(name)),
        "ports": lambda: tuple(values.texts(name)),
        "proxies": lambda: _secret_flags.lines(values, name, files),
        "kinds": lambda: tuple(kind.strip() for text in values.texts(name) for kind in text.split(",")) or None,
        "size": lambda: values.size_or_none(name),
        "limit_per_host": lambda: _joined(values, name),
        "rate_per_host": lambda: _joined(values, name),
        "seconds": lambda: values.seconds_or_none(name),
        "whole": lambda: values.whole_or_none(name),
    }
    reader = readers.get(option.given_as)
    return reader() if reader is not None else values.text(name)
