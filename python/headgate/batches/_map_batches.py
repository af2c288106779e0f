"""Makes requests for the rows of tables, and returns results as record batches."""

from typing import Any, Unpack

from headgate._native import BatchTable
from headgate.batches._batch_iterator import AsyncBatchIterator, AsyncTableSupply, BatchIterator
from headgate.batches._batch_options import options_of
from headgate.batches._options import AMAP_BATCHES, FETCH_TABLE, MAP_BATCHES, BatchKeywords
from headgate.batches._runs import begin
from headgate.batches._supply import TableSupply
from headgate.jobs._notebook import refuse_to_block_a_loop


@MAP_BATCHES.shown_by
def map_batches(batches: Any, **options: Unpack[BatchKeywords]) -> BatchIterator:  # noqa: ANN401 - whatever speaks Arrow
    """Makes one request for each row of a table, and yields the results in batches.

    Nothing is written to disk: for a job that can be resumed, use `headgate.fetch`. The input is read as it is needed,
    in the thread that takes the results, so neither has to fit in memory. Results come as they finish, not in the order
    of the input; the column `row` has the position of their row, counted over all batches.

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
        rows or 1 MiB, and is returned at the latest 100 ms after its first row finished. To end early, leave its `with`
        block, or call `close()`: what is in flight is cancelled.

    Raises:
        UsageError: An argument is wrong; the message has all mistakes.
        InputError: While iterating: the input lacks a column that is needed, or its batches have different columns.
        TypeError: `batches`, or what it yields, is no table.
        RuntimeError: This thread runs an event loop, which iterating would block.
    """
    refuse_to_block_a_loop("map_batches", "use it in another thread, as with asyncio.to_thread")
    supply, of_call = TableSupply(batches), options_of(MAP_BATCHES, options)
    return BatchIterator(begin(of_call), supply, of_call.progress)


@AMAP_BATCHES.shown_by
def amap_batches(batches: Any, **options: Unpack[BatchKeywords]) -> AsyncBatchIterator:  # noqa: ANN401 - whatever speaks Arrow
    """`headgate.map_batches` for an event loop, which it does not block.

    Calls in one process share engines with each other and with those of `headgate.map_batches`.

    >>> table = pyarrow.table({"id": range(100)})
    >>> sum([batch.num_rows async for batch in headgate.amap_batches(table, url="http://127.0.0.1:8080/{id}")])
    100

    Args:
        batches: As for `headgate.map_batches`, or an async iterable. A synchronous iterable is read in threads.
        **options: `help(headgate.amap_batches)` describes each with its default.

    Returns:
        An asynchronous iterator over batches. Leaving its `async with` block, `aclose()` or dropping it cancels what is
        in flight; cancelling the wait for a batch, as a timeout does, loses nothing.

    Raises:
        UsageError: An argument is wrong; the message has all mistakes.
        InputError: While iterating: the input lacks a column that is needed, or its batches have different columns.
        TypeError: `batches`, or what it yields, is no table.
        StrayCancellation: While iterating: the source was cancelled, and the task that takes batches was not.
    """
    of_call = options_of(AMAP_BATCHES, options)
    flow = begin(of_call, watched=True)
    return AsyncBatchIterator(flow, lambda notify: AsyncTableSupply(batches, notify), of_call.progress)


__all__ = ["BatchTable", "fetch_table"]


@FETCH_TABLE.shown_by
def fetch_table(table: Any, **options: Unpack[BatchKeywords]) -> BatchTable:  # noqa: ANN401 - whatever speaks Arrow
    """Makes one request for each row of a table and returns the results as a table.

    It is `headgate.map_batches` with all batches at once: the results have to fit in memory.

    >>> table = pyarrow.table({"id": [1, 2, 3]})
    >>> results = headgate.fetch_table(table, url="http://127.0.0.1:8080/bytes/{id}")
    >>> pyarrow.table(results).sort_by("row")["received_bytes"].to_pylist()
    [1, 2, 3]

    Args:
        table: As the `batches` of `headgate.map_batches`.
        **options: `help(headgate.fetch_table)` describes each with its default.

    Returns:
        The results, in the order in which they finished; the column `row` has the position of their row. They have
        the Arrow PyCapsule interface (`__arrow_c_stream__`): `pyarrow.table(results)` and `polars.DataFrame(results)`
        accept them. For pandas, use `pyarrow.table(results).to_pandas()`.

    Raises:
        UsageError: An argument is wrong; the message has all mistakes.
        InputError: The input lacks a column that is needed, or its batches have different columns.
        TypeError: `table` is not a table.
        RuntimeError: This thread runs an event loop, which it would block: use `asyncio.to_thread`.
    """
    refuse_to_block_a_loop("fetch_table", "give the call to asyncio.to_thread")
    supply, of_call = TableSupply(table), options_of(FETCH_TABLE, options)
    with BatchIterator(begin(of_call), supply, of_call.progress) as batches:
        return batches.table()
