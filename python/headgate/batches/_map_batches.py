"""Tables through the engine: record batches in, record batches of results out."""

from typing import Any, Unpack

from headgate._native import BatchTable
from headgate.batches._batch_iterator import AsyncBatchIterator, AsyncTables, BatchIterator
from headgate.batches._batch_options import asked_of
from headgate.batches._options import AMAP_BATCHES, FETCH_TABLE, MAP_BATCHES, BatchKeywords
from headgate.batches._runs import begin
from headgate.batches._supply import Tables
from headgate.jobs._notebook import refuse_to_block_a_loop


@MAP_BATCHES.shown_by
def map_batches(batches: Any, **options: Unpack[BatchKeywords]) -> BatchIterator:  # noqa: ANN401 - whatever speaks Arrow
    """Makes one request for each row of a table, and yields the results in batches.

    Nothing is written to disk: for a job that can be resumed, use `headgate.fetch`. The input is read when there is
    room for its rows, in the thread that takes the results, so neither has to fit in memory. Results come as they are
    done, not in the order of the input; the column `row` has the position of their row, counted over all batches.

    All calls in a process with the same options share one engine: its connections, its limits, and the number of
    requests in flight, which is `concurrency` for all of them together. A request that fails is a row of the results,
    with its `error` or a status in `fail_on`, not an exception.

    >>> table = pyarrow.table({"id": range(100)})
    >>> batches = headgate.map_batches(table, url="http://127.0.0.1:8080/{id}")
    >>> sum(pyarrow.record_batch(batch).num_rows for batch in batches)
    100

    Args:
        batches: A table (`pyarrow.Table`, `polars.DataFrame`, `pandas.DataFrame`, or anything else with
            `__arrow_c_stream__` or `__arrow_c_array__`), or an iterable of these, all with the same columns.
        **options: `help(headgate.map_batches)` describes each with its default.

    Returns:
        An iterator over batches. Each has the columns of the results of `headgate.fetch` and those of the input, and
        the Arrow PyCapsule interface (`__arrow_c_array__`); the iterator has that of a stream. A batch has up to 1,024
        rows or 1 MiB, and is returned at the latest 100 ms after its first row was done. To end early, leave its `with`
        block, or call `close()`: what is in flight is cancelled.

    Raises:
        UsageError: An argument is wrong; all mistakes are named.
        InputError: While iterating: the input lacks a column that is needed, or its batches have different columns.
        TypeError: `batches`, or what it yields, is no table.
        RuntimeError: This thread runs an event loop, which iterating would block.
    """
    refuse_to_block_a_loop("map_batches", "use it in another thread, as with asyncio.to_thread")
    supply, asked = Tables(batches), asked_of(MAP_BATCHES, options)
    return BatchIterator(begin(asked), supply, asked.progress)


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
        StrayCancellation: While iterating: the source was cancelled, and the task that takes batches was not.
    """
    asked = asked_of(AMAP_BATCHES, options)
    flow = begin(asked, watched=True)
    return AsyncBatchIterator(flow, lambda tell: AsyncTables(batches, tell), asked.progress)


__all__ = ["BatchTable", "fetch_table"]


@FETCH_TABLE.shown_by
def fetch_table(table: Any, **options: Unpack[BatchKeywords]) -> BatchTable:  # noqa: ANN401 - whatever speaks Arrow
    """Makes one request for each row of a table and returns the results as a table.

    It is `headgate.map_batches` with all batches at once: the results have to fit in memory.

    >>> table = pyarrow.table({"id": [1, 2, 3]})
    >>> results = headgate.fetch_table(table, url="http://127.0.0.1:8080/bytes/{id}")
    >>> pyarrow.table(results).sort_by("row")["body_bytes"].to_pylist()
    [1, 2, 3]

    Args:
        table: As the `batches` of `headgate.map_batches`.
        **options: `help(headgate.fetch_table)` describes each with its default.

    Returns:
        The results, in the order in which they were done; the column `row` has the position of their row. They have
        the Arrow PyCapsule interface (`__arrow_c_stream__`): `pyarrow.table(results)` and `polars.DataFrame(results)`
        accept them. For pandas, use `pyarrow.table(results).to_pandas()`.

    Raises:
        UsageError: An argument is wrong; all mistakes are named.
        InputError: The input lacks a column that is needed, or its batches have different columns.
        TypeError: `table` is none.
        RuntimeError: This thread runs an event loop, which it would block: use `asyncio.to_thread`.
    """
    refuse_to_block_a_loop("fetch_table", "give the call to asyncio.to_thread")
    supply, asked = Tables(table), asked_of(FETCH_TABLE, options)
    with BatchIterator(begin(asked), supply, asked.progress) as batches:
        return batches.table()
