"""`headgate set`: changes options of a running job."""

from collections.abc import Sequence
from typing import Final

from headgate.cli import _changes, _not_here, _option_flags
from headgate.cli._parser import Parser
from headgate.jobs._job_options import SetOptions
from headgate.jobs._options import SET

_DESCRIPTION: Final = """\
Changes options of the job in OUT while it runs; nothing that it has done or is doing is lost. What is set holds until
the job ends, also if it is stopped and resumed, unless a later command line names the option itself. The value none
takes a limit away, or brings back the default. `headgate status OUT` shows what was set."""

_EXAMPLES: Final = f"""\
examples:
  headgate set results --rate 50/s -c 200
  headgate set results --rate-per-host api.example.com=5/s
  headgate set results --rate none

{_changes.EXIT_CODES}"""

_WHY_NOT_HERE: Final = "a running job can't change it"


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, changes the job, and prints the result."""
    values = parser().read(arguments)
    if values is None:
        return 0
    options = SetOptions(output=_changes.directory(values), texts=_option_flags.read_texts(values, SET))
    if not options.texts and not values.mistakes:
        values.mistakes.append("nothing is to be set: name an option, such as --rate 50/s")
    _option_flags.check(values, options)
    from headgate.jobs._job import set_in  # noqa: PLC0415 - not for the help

    print(_changes.SET[set_in(options)])
    return 0


def parser() -> Parser:
    """Returns the parser of the verb."""
    made = Parser(
        "set",
        usage="OUT [flags]",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
        elsewhere=_not_here.advice(lambda: parser().names(), _WHY_NOT_HERE),
    )
    made.group("what to change")
    made.argument("output", "OUT", _changes.OUT_MEANS)
    _option_flags.add_groups(made, SET)
    return made
