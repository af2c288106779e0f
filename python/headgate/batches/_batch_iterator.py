"""One call: an iterator over batches of results."""

from collections.abc import Iterator
from functools import partial
from types import TracebackType
from typing import Final, Self

from headgate._native import BatchFlow, BatchTable, RowBatch, RowSchema
from headgate._summary import Snapshot
from headgate.batches._supply import Supply
from headgate.jobs._progress import Progress, Told

_SLICE_S: Final = 0.1
"""How long to wait at a time: then signals are looked at."""


class BatchIterator(Iterator[RowBatch]):
    """Batches of results, as `headgate.map_batches` returns them.

    Each batch has `num_rows` and `__arrow_c_array__`: `pyarrow.record_batch(batch)` and `polars.DataFrame(batch)`
    accept it. All of them together are a stream of record batches (`__arrow_c_stream__`), which can be read once:
    `pyarrow.RecordBatchReader.from_stream(batches)` and `polars.DataFrame(batches)` accept that.

    It can be used as a context manager, which ends it. One thread at a time can take batches from it.

    >>> table = pyarrow.table({"id": range(100)})
    >>> with headgate.map_batches(table, url="http://127.0.0.1:8080/{id}") as batches:
    ...     print(next(batches).num_rows > 0)
    True
    """

    def __init__(self, flow: BatchFlow, supply: Supply, progress: Told) -> None:
        self._supply = supply
        self._flow = flow
        self._knows_columns = not supply.decides_columns
        # Not its own method: who drops this drops all of it.
        self._progress = Progress(progress, partial(statistics_of, flow))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RowBatch:
        """The next batch; waits until there is one.

        Raises:
            InputError: A batch of the input lacks a column that is needed, or has other columns than the first one.
            TypeError: What the input yields is no batch.
        """
        try:
            batch = self._next()
        except BaseException:
            self.close()
            raise
        if batch is None:
            self.close()
            raise StopIteration
        return batch

    @property
    def schema(self) -> RowSchema:
        """The columns of all batches (`__arrow_c_schema__`). The first batch of the input is taken for that.

        >>> with headgate.map_batches(pyarrow.table({"id": [1]}), url="http://127.0.0.1:8080/{id}") as batches:
        ...     print(pyarrow.schema(batches.schema).names[-1])
        id

        Raises:
            InputError: As `next`.
        """
        if not self._knows_columns:
            self._give()
        return self._flow.schema

    def statistics(self) -> Snapshot:
        """How far it is, together with all that shares its limits.

        >>> with headgate.map_batches(pyarrow.table({"id": [1]}), url="http://127.0.0.1:8080/{id}") as batches:
        ...     batch = next(batches)
        ...     print(batches.statistics().answered > 0)
        True
        """
        return statistics_of(self._flow)

    def table(self) -> BatchTable:
        """All batches that were not taken yet, as one table. Raises as `next`.

        >>> with headgate.map_batches(pyarrow.table({"id": [1, 2]}), url="http://127.0.0.1:8080/{id}") as batches:
        ...     print(pyarrow.table(batches.table()).num_rows)
        2
        """
        return self._flow.table(list(self))

    def close(self) -> None:
        """Ends it: what is in flight is cancelled, and there are no more batches. Connections are kept.

        >>> batches = headgate.map_batches(pyarrow.table({"id": [1]}), url="http://127.0.0.1:8080/{id}")
        >>> batches.close()
        >>> list(batches)
        []
        """
        self._flow.close()
        self._progress.leave()
        # The last: a generator of the caller may raise when it is closed.
        self._supply.close()

    def __arrow_c_schema__(self) -> object:
        """See `schema`."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A stream of those batches that were not taken yet; it has its own schema whatever is requested."""
        del requested_schema
        self.__arrow_c_schema__()
        return self._flow.stream(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _next(self) -> RowBatch | None:
        while True:
            batch, has_ended, wants_more = self._flow.step(_SLICE_S)
            if has_ended:
                self._progress.end()
                if self._supply.failure is not None:
                    raise self._supply.failure
                return None
            self._progress.look()
            if batch is not None:
                return batch
            if wants_more:
                self._give()

    def _give(self) -> None:
        self._knows_columns = True
        self._supply.give(self._flow)


def statistics_of(flow: BatchFlow) -> Snapshot:
    """How far a call is, together with all that shares its limits."""
    return Snapshot.from_json(flow.snapshot())
