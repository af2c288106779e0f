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
    cli                                            one file for each verb
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate._errors import (
        HeadgateError,
        InputError,
        InternalError,
        Interrupted,
        OutputError,
        UsageError,
    )
    from headgate._fetch import fetch
    from headgate._job import Job, RowStream
    from headgate._status import JobRun, JobStatus
    from headgate._summary import JobFigures, Summary
    from headgate._version import __version__

__all__ = [
    "HeadgateError",
    "InputError",
    "InternalError",
    "Interrupted",
    "Job",
    "JobFigures",
    "JobRun",
    "JobStatus",
    "OutputError",
    "RowStream",
    "Summary",
    "UsageError",
    "__version__",
    "fetch",
]

# Imported when first used: `headgate --help` answers without loading the engine.
_HOME_OF = {
    "HeadgateError": "_errors",
    "InputError": "_errors",
    "InternalError": "_errors",
    "Interrupted": "_errors",
    "Job": "_job",
    "JobFigures": "_summary",
    "JobRun": "_status",
    "JobStatus": "_status",
    "OutputError": "_errors",
    "RowStream": "_job",
    "Summary": "_summary",
    "UsageError": "_errors",
    "__version__": "_version",
    "fetch": "_fetch",
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
