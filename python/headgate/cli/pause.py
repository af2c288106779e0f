"""`headgate pause`: a job starts nothing more for now."""

from collections.abc import Sequence
from typing import Final

from headgate.cli import _pausing
from headgate.cli._parser import Parser

_DESCRIPTION: Final = """\
Has the job in OUT start nothing more until `headgate unpause OUT`. What is in flight goes on to its end and is
written. The pause holds also if the job is stopped and resumed."""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, tells the job, says what became of it."""
    return _pausing.main(parser(), arguments, paused=True)


def parser() -> Parser:
    """What can be typed after the verb."""
    return _pausing.parser("pause", _DESCRIPTION)
