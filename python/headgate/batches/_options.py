"""The options of `map_batches` and `fetch_table`: those of a job that make sense without a directory."""

from collections.abc import Iterable
from typing import Annotated, Final, TypedDict

from headgate._option import OptionSet
from headgate.jobs._connection_options import ConnectionOptions
from headgate.jobs._input_options import RowOptions
from headgate.jobs._limit_options import RequestLimitOptions
from headgate.jobs._option_entry import ALL_COLUMNS, JobOption
from headgate.jobs._progress import ProgressOption
from headgate.jobs._rate_options import CostColumnOption, RateOptions
from headgate.jobs._request_options import AskOptions, BodyOptions, MethodOption, SendOptions
from headgate.jobs._response_options import AnswerOptions, SelectOptions
from headgate.jobs._retry_options import RepeatableOptions, SettableRepeatOptions


class KeepOption(TypedDict, total=False):
    """What of the input is part of the results."""

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
    RowOptions,
    KeepOption,
    MethodOption,
    BodyOptions,
    SelectOptions,
    CostColumnOption,
    ProgressOption,
    total=False,
):
    """What of them is about rows and columns, and not about how requests are made."""


class StageKeywords(
    RowOptions,
    KeepOption,
    AskOptions,
    AnswerOptions,
    SelectOptions,
    SendOptions,
    ConnectionOptions,
    RequestLimitOptions,
    RateOptions,
    SettableRepeatOptions,
    RepeatableOptions,
    total=False,
):
    """The options of a stage of a data engine, which has a progress of its own."""


class BatchKeywords(StageKeywords, ProgressOption, total=False):
    """The options of `headgate.map_batches` and `headgate.fetch_table`."""


MAP_BATCHES: Final = OptionSet(BatchKeywords, of="map_batches")
AMAP_BATCHES: Final = OptionSet(BatchKeywords, of="amap_batches")
FETCH_TABLE: Final = OptionSet(BatchKeywords, of="fetch_table")
