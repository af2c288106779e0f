"""`headgate unpause`: a job goes on after a pause."""

from collections.abc import Sequence
from typing import Final

from headgate.cli import _pausing
from headgate.cli._parser import Parser

_DESCRIPTION: Final = """\
Has the job in OUT go on after `headgate pause OUT`."""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, tells the job, says what became of it."""
    return _pausing.main(parser(), arguments, paused=False)


def parser() -> Parser:
    """What can be typed after the verb."""
    return _pausing.parser("unpause", _DESCRIPTION)
