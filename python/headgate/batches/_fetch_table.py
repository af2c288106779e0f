"""`headgate.fetch_table`: a table in, a table of results out."""

from typing import Any, Unpack

from headgate._native import BatchTable
from headgate.batches._batch_iterator import BatchIterator
from headgate.batches._batch_options import asked_of
from headgate.batches._options import FETCH_TABLE, BatchKeywords
from headgate.batches._runs import begin
from headgate.batches._supply import Tables
from headgate.jobs._blocking import refuse_to_block_a_loop

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
