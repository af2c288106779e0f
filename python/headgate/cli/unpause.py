"""`headgate unpause`: continues a job after a pause."""

from collections.abc import Sequence
from typing import Final

from headgate.cli import _changes
from headgate.cli._parser import Parser

_DESCRIPTION: Final = """\
Continues the job in OUT after `headgate pause OUT`."""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, continues the job, and prints the result."""
    return _changes.pause_main(parser(), arguments, paused=False)


def parser() -> Parser:
    """Returns the parser of the verb."""
    return _changes.pause_parser("unpause", _DESCRIPTION)
