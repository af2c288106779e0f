"""`headgate.spark.fetch`, which returns the function that Spark calls for each partition."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Unpack

from headgate.batches._options import StageKeywords
from headgate.batches._stage import Stage, stage_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_OPTIONS: Final = stage_options("fetch")


class Fetch:
    """The function from batches to batches that `headgate.spark.fetch` returns, for `DataFrame.mapInArrow`.

    Spark sends it to its workers. Its `repr` shows no values of options, because some are secrets.

    >>> fetch = headgate.spark.fetch(url="http://127.0.0.1:8080/bytes/{id}")
    >>> fetch
    headgate.spark.fetch(url=…)
    >>> [results["status"].to_pylist() for results in fetch([pyarrow.record_batch({"id": [7]})])]
    [[200]]
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def __repr__(self) -> str:
        return f"headgate.spark.fetch{repr(self._stage).removeprefix(type(self._stage).__name__)}"

    def __call__(self, batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        """Yields the results of a partition, in the order in which they finish.

        Raises:
            InputError: A column that is needed is missing, or has a type that can't be used.
        """
        import pyarrow as pa  # noqa: PLC0415 - optional

        with self._stage.begin(batches) as results:
            for batch in results:
                yield pa.record_batch(batch)

    def schema(self, frame: "DataFrame | StructType") -> "StructType":
        """Returns the schema of the results for this DataFrame, which `mapInArrow` needs.

        >>> frame = spark.createDataFrame([(7,)], "id long")
        >>> headgate.spark.fetch(url="http://127.0.0.1:8080/bytes/{id}").schema(frame).names[-1]
        'id'

        Raises:
            InputError: A column that is needed is missing, or has a type that can't be used.
        """
        import pyarrow as pa  # noqa: PLC0415 - optional
        from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema  # noqa: PLC0415 - optional
        from pyspark.sql.types import StructType  # noqa: PLC0415 - optional

        given = frame if isinstance(frame, StructType) else frame.schema
        results = self._stage.begin(to_arrow_schema(given, timezone="UTC").empty_table())
        results.table()
        return from_arrow_schema(pa.schema(results.schema))


@_OPTIONS.shown_by
def fetch(**options: Unpack[StageKeywords]) -> Fetch:
    """Returns the function for `mapInArrow` that makes one request for each row of a DataFrame of Spark.

    >>> frame = spark.createDataFrame([(7,)], "id long")
    >>> fetch = headgate.spark.fetch(url="http://127.0.0.1:8080/bytes/{id}", concurrency=100)
    >>> frame.mapInArrow(fetch, fetch.schema(frame)).select("id", "status", "received_bytes").collect()
    [Row(id=7, status=200, received_bytes=7)]

    A request that fails is a row of the results, with its `error` or a status in `fail_on`, not an exception. Results
    have the columns of the results of `headgate.fetch` and those of the input. The column `row` is the position in a
    partition, not in the DataFrame: keep a column that identifies rows. With `keep=()`, and without
    `extract` and `drop`, the schema is `headgate.spark.SCHEMA`, whatever the DataFrame has.

    Limits apply to one Python worker of Spark: with 8 cores, there are up to 8 of them. Their connections stay open
    over batches and partitions, as long as Spark keeps its workers (`spark.python.worker.reuse`).

    Args:
        **options: `help(headgate.spark.fetch)` describes each with its default.

    Raises:
        UsageError: An option has an invalid value; the message has all mistakes.
        TypeError: There is no such option; the message has the one that is probably meant.
    """
    return Fetch(Stage(_OPTIONS, options))
