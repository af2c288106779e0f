"""Makes very large numbers of HTTP requests with a bounded number in flight.

    import headgate

    summary = headgate.fetch("urls.parquet", "results/", concurrency=1000)
    table = pyarrow.table(headgate.Job.open("results/").rows())

Who may import whom: a file those on the lines above its own. Of other rooms `tasks` may use `limits`, `cli` and
`batches` may use `jobs`, `client` may use `jobs` and `batches`, `ray` and `spark` may use `batches`, `testing` may use
`client`, and no other room any; nothing imports `cli`.

    _version  _format  _nearest                  the version, words for people
    _message                                     and with options in them
    _url_user                                    what of a URL is shown to nobody
    _facts                                       how facts stand below one another
    _html                                        and in a notebook
    _summary  _checks                           what a job says of itself, what an argument must be
    _errors  _option                             what can go wrong; an option is one entry
    _mocks                                       who answers in place of the network
    _headgate                                    the engine
    _native                                      the one module that imports it

    limits/                                      how many, how fast, how often
        _wait_queue  _retry
        _concurrency_limit  _rate

    tasks/                                       many tasks, few at once: beside the engine, and without it
        _source  _options  _outcome              where items come from, what is asked, what they become
        _maker  _clock  _raised                  how tasks are made, what time it is, how errors look
        _entry                                   an item on its way
        _gate  _timers                           what it waits for, what times it
        _work                                    what was begun, and how it ends
        _flow                                    the loop
        _future_flow  _call_flow                 what is started in it: awaitables, calls
        _paced_flow  _map_iterator               calls that wait; a loop on a thread of its own
        _face                                    what a user holds
        _as_completed  _amap                     the faces, and the small ones above them
        _gather  _for_each  _map

    portal/                                      calls from threads into a loop: also without the engine
        _call  _room                             one call, and how many there may be
        _crossing                                the way into a loop
        _loop_thread  _portal_call               a loop on a thread of its own; a call that nobody waits for yet
        _portal                                  the face

    jobs/                                        a job of the engine, from its start to its end
        _option_rules  _secret_file              what the options of a job may be, what a file of secrets holds
        _option_entry                            what is known of each
        _input_options  _request_options         their entries, by what they are about
        _response_options  _connection_options
        _limit_options  _rate_options
        _retry_options  _output_options  _plan_options
        _options                                 all entries of a job, and of a retry
        _job_options                             all of them, as the engine is told
        _arguments                               what Python gives as options
        _status                                  what a job's directory says
        _notebook  _process                      where it runs, and what ends with it
        _blocking  _signals                      what may not block, what interrupts
        _block                                   lines of a terminal that are drawn again
        _display  _proxies                       what a running job shows, what it says of proxies
        _watch                                   who looks at it
        _progress                                how far a call is, for who iterates over its results
        _report  _report_status                  what is said of a finished one, and of one that was looked at
        _run                                     one run of a job
        _background                              one that nobody waits for
        _curl  _planned                          what a job would do, and its requests for curl
        _report_plan                             what is said of that
        _fetch  _job  _plan  _server             the faces of the engine

    batches/                                     tables through the engine, without a job
        _options                                 what can be asked
        _batch_options                           all of it, as the engine is told
        _runs                                    what the calls of this process share
        _supply  _pulled                         what goes in: tables, and what comes asynchronously
        _threads                                 what may take its time, while a loop goes on
        _batch_iterator                          one call
        _async_batches                           the same as a coroutine has it
        _stage                                   the calls of a data engine's workers
        _map_batches  _amap_batches              its faces
        _fetch_table

    client/                                      requests one by one, of threads and of loops
        _headers  _body  _encoding               what answers have, what is sent, how text is encoded
        _pieces                                  a body in pieces, as bytes, text and lines
        _request  _request_keywords              a request, and what a call takes of one
        _errors                                  a class for each kind of error
        _response                                what came of one, as its caller sees it
        _outcome                                 what became of one of many requests
        _client_options                          what a client is told
        _engine                                  one in each process
        _table_options                           what is told of tables
        _source  _submitted                      where many requests come from, what waits for its turn
        _calls                                   tables and batches on the engine of a client
        _flow  _loops                            many requests and their outcomes; those that a loop waits for
        _many  _async_many                       many requests, as a thread and a coroutine have them
        _streamed  _open_streams                 a response whose body is taken while it comes, and how many there are
        _stream  _async_stream                   the same, as a thread and a coroutine have it
        _methods                                 what calls are named
        _client  _async_client                   the faces

    ray/                                         a stage of Ray Data
        _niceness                                how workers are run
        _fetch                                   what an actor does
        _dataset                                 the face

    spark/                                       a stage of Spark
        _fetch                                   what a partition goes through

    testing/                                     in place of the network
        _answer  _mock_request                   what is answered, and to what
        _calls  _pattern                         what came, and which of it is meant
        _route                                   which requests have which answers
        _wire  _workers                          both as bytes; threads that may wait
        _serving                                 the other end of connections
        _server                                  the face
        plugin                                   and that for pytest

    cli/                                         one file for each verb
        _verbs  _wrapping  _exit_codes
        _parser  _flags
        _ending  _replace  _files
        _foreign  _secret_flags  _shells
        _option_flags
        _fetch_flags  _retry_flags  _changes
        _pausing
        fetch  plan  retry  serve  show  status
        set  pause  unpause
        completion  demo

    __main__                                     the command, as `python -m headgate`
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate._errors import (
        ClosedEarly,
        HeadgateError,
        InputError,
        InternalError,
        Interrupted,
        JobStopped,
        OutputError,
        StrayCancellation,
        TooManyErrors,
        UsageError,
    )
    from headgate._summary import JobFigures, Snapshot, Summary
    from headgate._version import __version__
    from headgate.batches._amap_batches import amap_batches
    from headgate.batches._async_batches import AsyncBatchIterator
    from headgate.batches._batch_iterator import BatchIterator
    from headgate.batches._fetch_table import BatchTable, fetch_table
    from headgate.batches._map_batches import map_batches
    from headgate.client._async_client import AsyncClient
    from headgate.client._async_many import AsyncFetchMany
    from headgate.client._async_stream import AsyncStreamedResponse
    from headgate.client._client import Client
    from headgate.client._errors import (
        BlockedByNetworkPolicy,
        BlockedByRobots,
        BodyTooLarge,
        ChecksumMismatch,
        ConnectError,
        ConnectionClosed,
        ConnectTimeout,
        DecodeError,
        DuplicateName,
        HostDown,
        InvalidRequest,
        ProtocolError,
        ProxyError,
        RedirectLoop,
        RequestCancelled,
        RequestError,
        RequestTimeout,
        ResolveError,
        TlsError,
        TooManyRedirects,
        UnexpectedAnswer,
    )
    from headgate.client._headers import Headers
    from headgate.client._many import FetchMany
    from headgate.client._outcome import Outcome
    from headgate.client._request import Request
    from headgate.client._response import Redirect, Response, StatusError
    from headgate.client._stream import StreamedResponse
    from headgate.client._submitted import QueueFull
    from headgate.jobs._background import Run
    from headgate.jobs._fetch import fetch, start
    from headgate.jobs._job import Job, RowStream
    from headgate.jobs._plan import Plan, plan
    from headgate.jobs._status import JobRun, JobStatus
    from headgate.limits._concurrency_limit import ConcurrencyLimit, ConcurrencyStatistics
    from headgate.limits._rate import Rate, RateStatistics
    from headgate.limits._retry import Retry, RetryStatistics
    from headgate.portal._portal import Portal
    from headgate.portal._portal_call import PortalCall
    from headgate.tasks._amap import TaskResults, amap
    from headgate.tasks._as_completed import CompletedFutures, as_completed, limited_as_completed
    from headgate.tasks._for_each import for_each
    from headgate.tasks._gather import gather
    from headgate.tasks._map import map  # noqa: A004 - it is `map`
    from headgate.tasks._map_iterator import MapIterator
    from headgate.tasks._outcome import TaskOutcome, TaskStatistics

__all__ = [
    "AsyncBatchIterator",
    "AsyncClient",
    "AsyncFetchMany",
    "AsyncStreamedResponse",
    "BatchIterator",
    "BatchTable",
    "BlockedByNetworkPolicy",
    "BlockedByRobots",
    "BodyTooLarge",
    "ChecksumMismatch",
    "Client",
    "ClosedEarly",
    "CompletedFutures",
    "ConcurrencyLimit",
    "ConcurrencyStatistics",
    "ConnectError",
    "ConnectTimeout",
    "ConnectionClosed",
    "DecodeError",
    "DuplicateName",
    "FetchMany",
    "Headers",
    "HeadgateError",
    "HostDown",
    "InputError",
    "InternalError",
    "Interrupted",
    "InvalidRequest",
    "Job",
    "JobFigures",
    "JobRun",
    "JobStatus",
    "JobStopped",
    "MapIterator",
    "Outcome",
    "OutputError",
    "Plan",
    "Portal",
    "PortalCall",
    "ProtocolError",
    "ProxyError",
    "QueueFull",
    "Rate",
    "RateStatistics",
    "Redirect",
    "RedirectLoop",
    "Request",
    "RequestCancelled",
    "RequestError",
    "RequestTimeout",
    "ResolveError",
    "Response",
    "Retry",
    "RetryStatistics",
    "RowStream",
    "Run",
    "Snapshot",
    "StatusError",
    "StrayCancellation",
    "StreamedResponse",
    "Summary",
    "TaskOutcome",
    "TaskResults",
    "TaskStatistics",
    "TlsError",
    "TooManyErrors",
    "TooManyRedirects",
    "UnexpectedAnswer",
    "UsageError",
    "__version__",
    "amap",
    "amap_batches",
    "as_completed",
    "fetch",
    "fetch_table",
    "for_each",
    "gather",
    "limited_as_completed",
    "map",
    "map_batches",
    "plan",
    "start",
]

# Imported when first used: `headgate --help` answers without loading the engine.
_HOME_OF = {
    "AsyncClient": "client._async_client",
    "AsyncFetchMany": "client._async_many",
    "AsyncStreamedResponse": "client._async_stream",
    "BlockedByNetworkPolicy": "client._errors",
    "BlockedByRobots": "client._errors",
    "BodyTooLarge": "client._errors",
    "ChecksumMismatch": "client._errors",
    "Client": "client._client",
    "AsyncBatchIterator": "batches._async_batches",
    "BatchIterator": "batches._batch_iterator",
    "BatchTable": "batches._fetch_table",
    "ClosedEarly": "_errors",
    "CompletedFutures": "tasks._as_completed",
    "ConcurrencyLimit": "limits._concurrency_limit",
    "ConcurrencyStatistics": "limits._concurrency_limit",
    "ConnectError": "client._errors",
    "ConnectTimeout": "client._errors",
    "ConnectionClosed": "client._errors",
    "DecodeError": "client._errors",
    "DuplicateName": "client._errors",
    "FetchMany": "client._many",
    "Headers": "client._headers",
    "HeadgateError": "_errors",
    "HostDown": "client._errors",
    "InputError": "_errors",
    "InternalError": "_errors",
    "Interrupted": "_errors",
    "InvalidRequest": "client._errors",
    "Job": "jobs._job",
    "JobFigures": "_summary",
    "JobRun": "jobs._status",
    "JobStatus": "jobs._status",
    "MapIterator": "tasks._map_iterator",
    "Outcome": "client._outcome",
    "OutputError": "_errors",
    "Plan": "jobs._plan",
    "Portal": "portal._portal",
    "PortalCall": "portal._portal_call",
    "ProtocolError": "client._errors",
    "ProxyError": "client._errors",
    "QueueFull": "client._submitted",
    "Rate": "limits._rate",
    "RateStatistics": "limits._rate",
    "Redirect": "client._response",
    "RedirectLoop": "client._errors",
    "Request": "client._request",
    "RequestCancelled": "client._errors",
    "RequestError": "client._errors",
    "RequestTimeout": "client._errors",
    "ResolveError": "client._errors",
    "Response": "client._response",
    "Retry": "limits._retry",
    "RetryStatistics": "limits._retry",
    "RowStream": "jobs._job",
    "Run": "jobs._background",
    "Snapshot": "_summary",
    "StatusError": "client._response",
    "StrayCancellation": "_errors",
    "StreamedResponse": "client._stream",
    "Summary": "_summary",
    "TaskOutcome": "tasks._outcome",
    "TaskResults": "tasks._amap",
    "TaskStatistics": "tasks._outcome",
    "TlsError": "client._errors",
    "TooManyErrors": "_errors",
    "JobStopped": "_errors",
    "TooManyRedirects": "client._errors",
    "UnexpectedAnswer": "client._errors",
    "UsageError": "_errors",
    "__version__": "_version",
    "amap": "tasks._amap",
    "as_completed": "tasks._as_completed",
    "fetch": "jobs._fetch",
    "fetch_table": "batches._fetch_table",
    "for_each": "tasks._for_each",
    "gather": "tasks._gather",
    "limited_as_completed": "tasks._as_completed",
    "map": "tasks._map",
    "amap_batches": "batches._amap_batches",
    "map_batches": "batches._map_batches",
    "plan": "jobs._plan",
    "start": "jobs._fetch",
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
