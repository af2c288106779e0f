"""The pages of `headgate help` that belong to no verb."""

from collections.abc import Sequence
from typing import Any, Final

from headgate._native import ERROR_KINDS
from headgate.cli._fetch_flags import parser
from headgate.cli._groups import ERRORS, GROUPS
from headgate.cli._parser import Flag
from headgate.cli._wrapping import help_width, listed, wrapped
from headgate.jobs._options import FETCH

_COLUMN: Final = 6
"""The column at which descriptions begin, below their flags."""


def group(name: str) -> str:
    """Returns the help of a group: its flags with their whole descriptions, and examples."""
    width = help_width()
    about, examples = GROUPS[name]
    described = "\n".join(_described(flag, width) for flag in _shown(name))
    lines = "\n".join(f"  {example}" for example in examples)
    return "\n\n".join([wrapped(f"{name}: {about}", width), described, f"examples:\n{lines}"]) + "\n"


def flag(name: str) -> str | None:
    """Returns the help of one flag, which may be typed without its hyphens; `None` if there is none."""
    width = help_width()
    found = next((flag for flag in parser().flags() if {name, as_flag(name)} & {*flag.names}), None)
    if found is None:
        return None
    see = f"`headgate help {found.group}` explains the flags of its group" if found.group else ""
    return "\n\n".join(filter(None, [_described(found, width), wrapped(see, width)])) + "\n"


def flags() -> Sequence[str]:
    """Returns the names of all flags of `headgate fetch`."""
    return [name for flag in parser().flags() for name in flag.names]


def as_flag(name: str) -> str:
    """Returns a name with the hyphens of a flag: `--retry-on` for `retry_on`."""
    return f"--{name.lstrip('-').replace('_', '-')}"


def as_json() -> str:
    """Returns the flags of each group as JSON."""
    import json  # noqa: PLC0415 - only for this

    groups = {name: [_properties(flag) for flag in _shown(name)] for name in GROUPS}
    return json.dumps(groups, indent=2, ensure_ascii=False) + "\n"


def errors() -> str:
    """Returns the error kinds, each with its cause."""
    width = help_width()
    kinds = [(name, when.replace("`", "")) for name, when in ERROR_KINDS]
    title = f"{ERRORS}: the error kinds of failed rows; --retry-on and --only take them, too"
    return f"{wrapped(title, width)}\n{listed(kinds, width)}\n"


def _shown(group_name: str) -> Sequence[Flag]:
    return [flag for flag in parser().flags() if flag.group == group_name and flag.is_shown]


def _described(flag: Flag, width: int) -> str:
    return f"  {flag.usage()}\n{listed([('', _details(flag))], width, column=_COLUMN)}"


def _properties(flag: Flag) -> dict[str, Any]:
    """Returns a flag as JSON has it; `default` and `unit` are those of the keyword in Python."""
    entry = FETCH.entries.get(flag.dest)
    return {
        "name": flag.dest,
        "flags": list(flag.names),
        "value": flag.metavar,
        "default": None if entry is None else entry.option.default,
        "default_means": flag.default,
        "unit": "" if entry is None else entry.option.unit,
        "help": " ".join(_sentences(flag)),
    }


def _details(flag: Flag) -> str:
    default = [f"Default: {flag.default}."] if flag.default else []
    return " ".join([*_sentences(flag), *default])


def _sentences(flag: Flag) -> Sequence[str]:
    repeats = ["Can be repeated."] if flag.details and flag.repeats else []
    return [flag.details or f"{flag.text[0].upper()}{flag.text[1:]}.", *repeats]
