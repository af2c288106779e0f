"""A stage of Spark: `headgate.spark.fetch(...)` is for `DataFrame.mapInArrow`."""

from typing import TYPE_CHECKING

from headgate.spark._fetch import Fetch, fetch

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    SCHEMA: StructType

__all__ = ["SCHEMA", "Fetch", "fetch"]


def __getattr__(name: str) -> object:
    if name != "SCHEMA":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyspark.sql.types import StructType  # noqa: PLC0415 - only when `SCHEMA` is used

    schema = fetch(keep=(), url="http://localhost/").schema(StructType())
    globals()[name] = schema
    return schema
