"""Makes very large numbers of HTTP requests with a bounded number in flight.

    import headgate

    summary = headgate.fetch("urls.parquet", "results/", concurrency=1000)
    table = pyarrow.table(headgate.Job.open("results/").rows())

Who may import whom, from the bottom up; nothing imports upwards, and nothing imports `cli`:

    _version                                       reads the version
    _summary  _status  _errors  _options           leaves: data
    _format  _nearest                              leaves: words
    _arguments                                     reads what Python gives as options
    _argument_names                                says of arguments what the engine says of flags
    _display  _report  _report_status  _watch      what a running job shows, what a finished one says
    _native                                        the one module that imports the engine
    _run                                           one run of a job, from its start to its end
    _fetch  _job  _server                          the faces of the engine

Beside the engine, and without it, what runs coroutines:

    _line  _concurrency_limit  _rate  _limits  _retry      how many, how fast, how often
    _task_feed  _task_outcome  _task_options               where items come from, what they become, what is asked
    _task_maker  _task_clock  _task_errors                 how tasks are made, what time it is, how errors look
    _task_entry  _task_timers                              an item on its way, and what times it
    _task_flow                                             the loop
    _task_futures  _task_calls  _task_paced                what is started in it: awaitables, calls, calls that wait
    _task_map                                              a loop on a thread of its own
    _tasks  _task_forms                                    the faces

Above all of them:

    cli                                            one file for each verb
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate._errors import (
        ClosedEarly,
        HeadgateError,
        InputError,
        InternalError,
        Interrupted,
        OutputError,
        StrayCancellation,
        TooManyErrors,
        UsageError,
    )
    from headgate._fetch import fetch
    from headgate._job import Job, RowStream
    from headgate._limits import ConcurrencyLimit, ConcurrencyStatistics, Rate, RateStatistics
    from headgate._retry import Retry, RetryStatistics
    from headgate._status import JobRun, JobStatus
    from headgate._summary import JobFigures, Summary
    from headgate._task_forms import for_each, gather, map  # noqa: A004 - it is `map`
    from headgate._task_map import MapIterator
    from headgate._task_outcome import TaskOutcome, TaskStatistics
    from headgate._tasks import CompletedFutures, TaskResults, amap, as_completed, limited_as_completed
    from headgate._version import __version__

__all__ = [
    "ClosedEarly",
    "CompletedFutures",
    "ConcurrencyLimit",
    "ConcurrencyStatistics",
    "HeadgateError",
    "InputError",
    "InternalError",
    "Interrupted",
    "Job",
    "JobFigures",
    "JobRun",
    "JobStatus",
    "MapIterator",
    "OutputError",
    "Rate",
    "RateStatistics",
    "Retry",
    "RetryStatistics",
    "RowStream",
    "StrayCancellation",
    "Summary",
    "TaskOutcome",
    "TaskResults",
    "TaskStatistics",
    "TooManyErrors",
    "UsageError",
    "__version__",
    "amap",
    "as_completed",
    "fetch",
    "for_each",
    "gather",
    "limited_as_completed",
    "map",
]

# Imported when first used: `headgate --help` answers without loading the engine.
_HOME_OF = {
    "ClosedEarly": "_errors",
    "CompletedFutures": "_tasks",
    "ConcurrencyLimit": "_limits",
    "ConcurrencyStatistics": "_limits",
    "HeadgateError": "_errors",
    "InputError": "_errors",
    "InternalError": "_errors",
    "Interrupted": "_errors",
    "Job": "_job",
    "JobFigures": "_summary",
    "JobRun": "_status",
    "JobStatus": "_status",
    "MapIterator": "_task_map",
    "OutputError": "_errors",
    "Rate": "_limits",
    "RateStatistics": "_limits",
    "Retry": "_retry",
    "RetryStatistics": "_retry",
    "RowStream": "_job",
    "StrayCancellation": "_errors",
    "Summary": "_summary",
    "TaskOutcome": "_task_outcome",
    "TaskResults": "_tasks",
    "TaskStatistics": "_task_outcome",
    "TooManyErrors": "_errors",
    "UsageError": "_errors",
    "__version__": "_version",
    "amap": "_tasks",
    "as_completed": "_tasks",
    "fetch": "_fetch",
    "for_each": "_task_forms",
    "gather": "_task_forms",
    "limited_as_completed": "_tasks",
    "map": "_task_forms",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only when something is used

    value: object = getattr(import_module(f"headgate.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
