"""`headgate.amap_batches`: the same in an event loop."""

from typing import Any, Unpack

from headgate.batches._async_batches import AsyncBatchIterator, AsyncTables
from headgate.batches._batch_options import asked_of
from headgate.batches._options import AMAP_BATCHES, BatchKeywords
from headgate.batches._runs import begin


@AMAP_BATCHES.shown_by
def amap_batches(batches: Any, **options: Unpack[BatchKeywords]) -> AsyncBatchIterator:  # noqa: ANN401 - whatever speaks Arrow
    """`headgate.map_batches` in an event loop, which goes on meanwhile.

    Calls in one process share what those of `headgate.map_batches` share, with these as well.

    >>> table = pyarrow.table({"id": range(100)})
    >>> sum([batch.num_rows async for batch in headgate.amap_batches(table, url="http://127.0.0.1:8080/{id}")])
    100

    Args:
        batches: As for `headgate.map_batches`; the iterable may be asynchronous. Another one is read in threads.
        **options: `help(headgate.amap_batches)` describes each with its default.

    Returns:
        An asynchronous iterator over batches. Leaving its `async with` block, `aclose()` or dropping it cancels what is
        in flight; cancelling the wait for a batch, as a timeout does, loses nothing.

    Raises:
        UsageError: An argument is wrong; all mistakes are named.
        InputError: While iterating: the input lacks a column that is needed, or its batches have different columns.
        TypeError: `batches`, or what it yields, is no table.
        StrayCancellation: While iterating: the source was cancelled, and who takes batches was not.
    """
    asked = asked_of(AMAP_BATCHES, options)
    flow = begin(asked, watched=True)
    return AsyncBatchIterator(flow, lambda tell: AsyncTables(batches, tell), asked.progress)
