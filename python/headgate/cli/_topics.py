"""The pages of `headgate help` that belong to no verb."""

from typing import Final

from headgate._native import ERROR_KINDS
from headgate.cli._fetch_flags import parser
from headgate.cli._groups import ERRORS, GROUPS
from headgate.cli._parser import Flag
from headgate.cli._wrapping import help_width, listed, wrapped

_COLUMN: Final = 6
"""The column at which descriptions begin, below their flags."""


def group(name: str) -> str:
    """Returns the help of a group: its flags with their whole descriptions, and examples."""
    width = help_width()
    about, examples = GROUPS[name]
    flags = [flag for flag in parser().flags() if flag.group == name and flag.is_shown]
    described = "\n".join(
        f"  {flag.usage()}\n{listed([('', _details(flag))], width, column=_COLUMN)}" for flag in flags
    )
    lines = "\n".join(f"  {example}" for example in examples)
    return "\n\n".join([wrapped(f"{name}: {about}", width), described, f"examples:\n{lines}"])


def errors() -> str:
    """Returns the error kinds, each with its cause."""
    width = help_width()
    kinds = [(name, when.replace("`", "")) for name, when in ERROR_KINDS]
    title = f"{ERRORS}: the error kinds of failed rows; --retry-on and --only take them, too"
    return f"{wrapped(title, width)}\n{listed(kinds, width)}"


def _details(flag: Flag) -> str:
    sentences = [flag.details or f"{flag.text[0].upper()}{flag.text[1:]}."]
    if flag.details and flag.repeats:
        sentences.append("Can be repeated.")
    if flag.default:
        sentences.append(f"Default: {flag.default}.")
    return " ".join(sentences)
