"""The options of one call, complete: as the engine reads them, by their names."""

from collections.abc import Mapping
from typing import Any, ClassVar

from headgate._option import OptionSet
from headgate.batches._options import MAP_BATCHES
from headgate.jobs._arguments import Arguments
from headgate.jobs._job_options import JobOptions


class BatchOptions(JobOptions):
    """One call, as the engine is told of it."""

    options: ClassVar[OptionSet[Any]] = MAP_BATCHES


def asked_of(options: OptionSet[Any], given: Mapping[str, Any]) -> BatchOptions:
    """What was given to a face with these options.

    Raises:
        UsageError: An argument is wrong; all mistakes are named.
        TypeError: There is no such option.
    """
    arguments = Arguments()
    asked = BatchOptions(arguments.read(options, given))
    arguments.check(asked)
    return asked
