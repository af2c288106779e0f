"""The complete options of one call of `map_batches`."""

from collections.abc import Mapping
from typing import Any, ClassVar

from headgate._option import OptionSet
from headgate.batches._options import MAP_BATCHES
from headgate.jobs._arguments import Arguments
from headgate.jobs._job_options import JobOptions


class BatchOptions(JobOptions):
    """The options of one call, as the engine reads them by name."""

    options: ClassVar[OptionSet[Any]] = MAP_BATCHES


def options_of(options: OptionSet[Any], given: Mapping[str, Any]) -> BatchOptions:
    """Returns the complete options of a call.

    Raises:
        UsageError: An argument is wrong; the message has all mistakes.
        TypeError: There is no such option.
    """
    arguments = Arguments()
    of_call = BatchOptions(arguments.read(options, given))
    arguments.check(of_call)
    return of_call
