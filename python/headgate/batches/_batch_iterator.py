"""One call: an iterator over batches of results."""

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, Self

from headgate._native import BatchFlow, BatchTable, RowBatch, RowSchema

_SLICE_S: Final = 0.1
"""How long to wait at a time: then signals are looked at."""

_ARROW: Final = ("__arrow_c_array__", "__arrow_c_stream__")


class BatchIterator(Iterator[RowBatch]):
    """Batches of results, as `headgate.map_batches` returns them.

    Each batch has `num_rows` and `__arrow_c_array__`: `pyarrow.record_batch(batch)` and `polars.DataFrame(batch)`
    accept it. It can be used as a context manager, which ends it. One thread at a time can take batches from it.
    """

    def __init__(self, flow: BatchFlow, batches: object) -> None:
        self._source = _source_of(batches)
        self._flow = flow

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
        """The columns of the results; those of the input are among them as soon as its first batch was taken."""
        return self._flow.schema

    def table(self) -> BatchTable:
        """All batches that are left, as one table. Raises as `next` does."""
        return self._flow.table(list(self))

    def close(self) -> None:
        """Ends it: what is in flight is cancelled, and there are no more batches. Connections are kept."""
        self._source = iter(())
        self._flow.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _next(self) -> RowBatch | None:
        while True:
            batch, has_ended, wants_batch = self._flow.step(_SLICE_S)
            if batch is not None or has_ended:
                return batch
            if wants_batch:
                self._supply()

    def _supply(self) -> None:
        try:
            batch = next(self._source)
        except StopIteration:
            self._flow.end()
        else:
            self._flow.take_from(batch)


def _source_of(batches: object) -> Iterator[object]:
    if any(hasattr(batches, name) for name in _ARROW):
        return iter((batches,))
    if isinstance(batches, Iterable) and not isinstance(batches, str | bytes):
        return iter(batches)
    raise TypeError(
        f"batches must be a table, a stream of record batches, or an iterable of these, not {type(batches).__name__}"
    )
