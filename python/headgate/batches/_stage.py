"""A stage of a data engine: what each of its workers asks, checked where it is made, before it is sent to them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from headgate._native import BatchFlow, RowSchema
from headgate._option import OptionSet
from headgate.batches._batch_iterator import BatchIterator
from headgate.batches._batch_options import BatchOptions, asked_of
from headgate.batches._options import MAP_BATCHES, StageKeywords
from headgate.batches._runs import begin, check
from headgate.batches._supply import Tables

_THREADS: Final = replace(
    MAP_BATCHES.entries["threads"].option,
    help="Worker threads of each process; a data engine has others for the other cores.",
    default=1,
    default_means="",
)


def stage_options(of: str) -> OptionSet[Any]:
    """Those of `map_batches`, of a function with this name."""
    return OptionSet(StageKeywords, of=of, options={"threads": _THREADS})


class Stage:
    """What is asked for each row. It can be pickled, and shows no values: some are secrets.

    Attributes:
        options: All of them.
    """

    def __init__(self, options: OptionSet[Any], given: Mapping[str, Any]) -> None:
        """Checks what was given.

        Raises:
            UsageError: An option can't be; all mistakes are named.
            TypeError: There is no such option.
        """
        defaults = {"threads": options.entries["threads"].option.default}
        self.options: BatchOptions = asked_of(options, {**defaults, **given})
        self._given = tuple(given)
        check(self.options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}=…' for name in self._given)})"

    def begin(self) -> BatchFlow:
        """Begins a call. All in a process share the engine, its connections and its limits."""
        return begin(self.options)

    def results(self, batches: object) -> BatchIterator:
        """Results for batches: a table, or an iterable of these.

        Raises:
            TypeError: They are neither.
        """
        return BatchIterator(self.begin(), Tables(batches), progress=False)

    def columns(self, table: object) -> RowSchema:
        """The columns of the results for tables with the columns of this one.

        Raises:
            InputError: A column that is needed is missing, or has a type that can't be used.
        """
        flow = self.begin()
        flow.take_from(table)
        flow.close()
        return flow.schema
