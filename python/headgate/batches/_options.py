"""The options of `map_batches` and `fetch_table`: those of a job that make sense without a directory."""

from collections.abc import Iterable
from typing import Annotated, Final, TypedDict

from headgate.jobs import _keywords as keywords
from headgate.jobs._auth import AuthOption
from headgate.jobs._option_entry import ALL_COLUMNS, JobOption
from headgate.jobs._options import (
    ConnectionOptions,
    RateOptions,
    RequestLimitOptions,
    RequestOptions,
    ResponseOptions,
    SelectOptions,
    SendOptions,
    option_set,
)
from headgate.jobs._progress import ProgressOption


class KeepOption(TypedDict, total=False):
    """The columns of the input that the results keep."""

    keep: Annotated[
        str | Iterable[str],
        JobOption(
            help='Columns of the input to copy into the results, or `"*"` for all; `()` for none.',
            default=(ALL_COLUMNS,),
            default_means="all",
            given_as="columns",
        ),
    ]


class TableKeywords(
    keywords.RowOptions,
    KeepOption,
    keywords.MethodOption,
    keywords.BodyOptions,
    SelectOptions,
    keywords.CostColumnOption,
    ProgressOption,
    total=False,
):
    """The options about rows and columns; options about connections and limits are not among them."""


class StageKeywords(
    keywords.RowOptions,
    KeepOption,
    RequestOptions,
    ResponseOptions,
    SelectOptions,
    SendOptions,
    ConnectionOptions,
    RequestLimitOptions,
    RateOptions,
    keywords.SettableRetryOptions,
    keywords.RetryableOptions,
    total=False,
):
    """The options of a stage of a data engine, which has a progress of its own."""


class BatchKeywords(StageKeywords, AuthOption, ProgressOption, total=False):
    """The options of `headgate.map_batches` and `headgate.fetch_table`."""


MAP_BATCHES: Final = option_set(BatchKeywords, of="map_batches")
AMAP_BATCHES: Final = option_set(BatchKeywords, of="amap_batches")
FETCH_TABLE: Final = option_set(BatchKeywords, of="fetch_table")
