"""`headgate pause`: pauses a running job."""

from collections.abc import Sequence
from typing import Final

from headgate.cli import _changes
from headgate.cli._parser import Parser

_DESCRIPTION: Final = """\
Pauses the job in OUT: it starts no more requests until `headgate unpause OUT`. Requests in flight end and are written.
The pause holds also if the job is stopped and resumed."""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, pauses the job, and prints the result."""
    return _changes.pause_main(parser(), arguments, paused=True)


def parser() -> Parser:
    """Returns the parser of the verb."""
    return _changes.pause_parser("pause", _DESCRIPTION)
