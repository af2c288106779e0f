"""The options of `map_batches` and `fetch_table`: those of a job that make sense without a directory."""

from collections.abc import Iterable
from typing import Annotated, Final, TypedDict

from headgate._option import OptionSet
from headgate.jobs import _option_rules as rules
from headgate.jobs._connection_options import ConnectionOptions
from headgate.jobs._input_options import RowOptions
from headgate.jobs._limit_options import RequestLimitOptions
from headgate.jobs._option_entry import ALL_COLUMNS, JobOption
from headgate.jobs._rate_options import RateOptions
from headgate.jobs._request_options import AskOptions, SendOptions
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
            check=rules.columns,
            given_as="columns",
        ),
    ]


class BatchKeywords(
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
    """The options of `headgate.map_batches` and `headgate.fetch_table`."""


MAP_BATCHES: Final = OptionSet(BatchKeywords, of="map_batches")
FETCH_TABLE: Final = OptionSet(BatchKeywords, of="fetch_table")
