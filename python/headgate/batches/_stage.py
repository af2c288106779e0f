"""A stage of a data engine: the options of its workers, checked before they are sent to them."""

from collections.abc import Mapping
from copy import copy
from typing import Any, Final

from headgate._option import OptionSet
from headgate.batches._batch_iterator import BatchIterator
from headgate.batches._batch_options import BatchOptions, options_of
from headgate.batches._options import StageKeywords
from headgate.batches._runs import begin, check
from headgate.batches._supply import TableSupply
from headgate.jobs._options import ENTRIES, option_set

_THREADS: Final = copy(ENTRIES["threads"])
_THREADS.help = "Worker threads of each process; a data engine has others for the other cores."
_THREADS.default, _THREADS.default_means = 1, ""


def stage_options(of: str) -> OptionSet[Any]:
    """Returns the options of `map_batches` for a function with this name."""
    return option_set(StageKeywords, of=of, threads=_THREADS)


class Stage:
    """The options of the requests of a stage. It can be pickled, and its `repr` shows no values: some are secrets.

    Attributes:
        options: The complete options.
    """

    def __init__(self, options: OptionSet[Any], given: Mapping[str, Any]) -> None:
        """Checks the options.

        Raises:
            UsageError: An option has an invalid value; the message has all mistakes.
            TypeError: There is no such option.
        """
        defaults = {"threads": options.entries["threads"].option.default}
        self.options: BatchOptions = options_of(options, {**defaults, **given})
        self._given = tuple(given)
        check(self.options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}=…' for name in self._given)})"

    def begin(self, batches: object) -> BatchIterator:
        """Begins a call. All calls of a process share the engine, its connections and its limits."""
        return BatchIterator(begin(self.options), TableSupply(batches), progress=False)
