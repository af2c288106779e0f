"""The command line of `headgate retry`: its flags and their meanings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headgate.cli import _exit_codes, _groups, _not_here, _option_flags, _retry_hint
from headgate.cli._parser import Parser
from headgate.cli._wrapping import help_width
from headgate.jobs._job_options import RetryOptions
from headgate.jobs._options import RETRY

_DESCRIPTION: Final = """\
Retries the failed rows of the job in OUT, or the rows that --only selects, also those that succeeded. The new outcome
of a row replaces the old one, in part-* or in failed-*, and its attempts add up. Files are replaced by commits, one
every 10 s: a retry may be stopped or killed like any run, and the same command continues.

An invalid_request is retried only if --only names that kind.

The requests are those of the job. It does not store the values of headers and data: if it was started with -H or -d,
give the same ones here. Credentials are needed again too, and can have new values."""

_EXAMPLES: Final = """\
examples:
  headgate retry results
  headgate retry results --only timeout,connect,503 -c 20
  headgate retry results --only 5xx --timeout 2m"""

_WHY_NOT_HERE: Final = "a retry sends the requests of its job, and writes the same columns"


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command line that was read; `retry_flags` are those that another retry of the job needs again."""

    options: RetryOptions
    quiet: bool
    summary: str | None
    log: Mapping[str, Any] = field(default_factory=dict)
    retry_flags: str = ""


def read(arguments: Sequence[str]) -> Command | None:
    """Reads a command line; returns `None` after printing the help.

    Raises:
        CommandLineError: It has mistakes; the message has all of them.
    """
    values = parser().read(arguments)
    if values is None:
        return None
    options = RetryOptions(output=values.argument("output"), **_option_flags.read(values, RETRY))
    summary = _option_flags.summary_file(values, None)
    log = _option_flags.log_of(values)
    _option_flags.check(values, options)
    retry_flags = _retry_hint.needed_flags(values)
    return Command(options=options, quiet=values.switch("quiet"), summary=summary, log=log, retry_flags=retry_flags)


def parser() -> Parser:
    """Returns the parser of the verb."""
    made = Parser(
        "retry",
        usage="OUT [flags]",
        description=_DESCRIPTION,
        examples=f"{_EXAMPLES}\n\n{_exit_codes.listing(_exit_codes.MEANINGS, help_width())}",
        elsewhere=_not_here.advice(lambda: parser().names(), _WHY_NOT_HERE),
    )
    made.group("what to retry")
    made.argument("output", "OUT", "the directory of the job")
    _option_flags.add(made, RETRY, "what to retry")
    _option_flags.add_groups(made, RETRY, is_shown=False)
    _option_flags.add_progress(made, is_shown=False)
    made.section(f"flags of headgate fetch that a retry has, too; {_groups.SEE}:", _groups.flags_in(made))
    return made
