"""Makes very large numbers of HTTP requests with a bounded number in flight.

    import headgate

    summary = headgate.fetch("urls.parquet", "results/", concurrency=1000)
    table = pyarrow.table(headgate.Job.open("results/").rows())

`limits`, `tasks` and `portal` bound any asyncio tasks, without the engine. `jobs`, `batches` and `client` make requests
with the engine, `ray` and `spark` are stages on `batches`, `testing` is a mock, `serving` the server's side of it and
of ASGI applications, and `cli` is the command.
"""

# Not imported from `typing`: that takes the command longer than all it does before Ctrl-C may end it (`__main__`).
TYPE_CHECKING = False

if TYPE_CHECKING:
    from headgate import testing as testing
    from headgate._errors import (
        ClosedEarly as ClosedEarly,
        HeadgateError as HeadgateError,
        InputError as InputError,
        InternalError as InternalError,
        Interrupted as Interrupted,
        JobStopped as JobStopped,
        NotAwaitableError as NotAwaitableError,
        OtherLoopError as OtherLoopError,
        OutputError as OutputError,
        StorageError as StorageError,
        StrayCancellation as StrayCancellation,
        TooManyFailures as TooManyFailures,
        UsageError as UsageError,
    )
    from headgate._native import __version__ as __version__
    from headgate._summary import JobFigures as JobFigures, Snapshot as Snapshot, Summary as Summary
    from headgate.batches._batch_iterator import (
        AsyncBatchIterator as AsyncBatchIterator,
        BatchIterator as BatchIterator,
    )
    from headgate.batches._map_batches import (
        BatchTable as BatchTable,
        amap_batches as amap_batches,
        fetch_table as fetch_table,
        map_batches as map_batches,
    )
    from headgate.client._async_client import AsyncClient as AsyncClient
    from headgate.client._attempt import Attempt as Attempt
    from headgate.client._client import Client as Client
    from headgate.client._cookies import CookieConflict as CookieConflict, Cookies as Cookies
    from headgate.client._errors import (
        BlockedByNetworkPolicy as BlockedByNetworkPolicy,
        BlockedByRobots as BlockedByRobots,
        BodyTooLarge as BodyTooLarge,
        ChecksumMismatch as ChecksumMismatch,
        ConnectError as ConnectError,
        ConnectionClosed as ConnectionClosed,
        ConnectTimeout as ConnectTimeout,
        CredentialsError as CredentialsError,
        DecodeError as DecodeError,
        DnsError as DnsError,
        DuplicateName as DuplicateName,
        HostDown as HostDown,
        InvalidRequest as InvalidRequest,
        PoolTimeout as PoolTimeout,
        ProtocolError as ProtocolError,
        ProxyError as ProxyError,
        ReadTimeout as ReadTimeout,
        RedirectLoop as RedirectLoop,
        RequestCancelled as RequestCancelled,
        RequestError as RequestError,
        RequestTimeout as RequestTimeout,
        TlsError as TlsError,
        TooManyRedirects as TooManyRedirects,
        TotalTimeout as TotalTimeout,
        UnexpectedResponse as UnexpectedResponse,
    )
    from headgate.client._fetch_many import AsyncFetchMany as AsyncFetchMany, FetchMany as FetchMany
    from headgate.client._flow import QueueFull as QueueFull
    from headgate.client._functions import (
        delete as delete,
        get as get,
        head as head,
        options as options,
        patch as patch,
        post as post,
        put as put,
        request as request,
    )
    from headgate.client._headers import Headers as Headers
    from headgate.client._hooks import ClientHooks as ClientHooks
    from headgate.client._outcome import Failed as Failed, Outcome as Outcome, Succeeded as Succeeded
    from headgate.client._prepared_request import PreparedRequest as PreparedRequest
    from headgate.client._request import Request as Request
    from headgate.client._response import (
        Redirect as Redirect,
        Response as Response,
        StatusError as StatusError,
    )
    from headgate.client._stream import (
        AsyncStreamedResponse as AsyncStreamedResponse,
        StreamedResponse as StreamedResponse,
    )
    from headgate.jobs._background import Run as Run
    from headgate.jobs._fetch import fetch as fetch, start as start
    from headgate.jobs._job import Job as Job, RowStream as RowStream
    from headgate.jobs._plan import Plan as Plan, plan as plan
    from headgate.jobs._status import JobRun as JobRun, JobStatus as JobStatus
    from headgate.jobs._verification import JobProblem as JobProblem, JobVerification as JobVerification
    from headgate.limits._concurrency_limit import (
        ConcurrencyLimit as ConcurrencyLimit,
        ConcurrencyStatistics as ConcurrencyStatistics,
    )
    from headgate.limits._rate import Rate as Rate, RateStatistics as RateStatistics
    from headgate.limits._retry import Retry as Retry, RetryStatistics as RetryStatistics
    from headgate.portal._portal import Portal as Portal, PortalCall as PortalCall
    from headgate.serving._asgi_app import AsgiApp as AsgiApp
    from headgate.tasks._amap import TaskResults as TaskResults, amap as amap, for_each as for_each
    from headgate.tasks._as_completed import (
        CompletedFutures as CompletedFutures,
        as_completed as as_completed,
        limited_as_completed as limited_as_completed,
    )
    from headgate.tasks._gather import gather as gather
    from headgate.tasks._map import MapIterator as MapIterator, map as map  # noqa: A004 - it is `map`
    from headgate.tasks._outcome import TaskOutcome as TaskOutcome, TaskStatistics as TaskStatistics

# Imported on first use, so that `headgate --help` does not load the engine.
_NAMES_IN = {
    "_errors": (
        "ClosedEarly HeadgateError InputError InternalError Interrupted JobStopped NotAwaitableError OtherLoopError "
        "OutputError StorageError StrayCancellation TooManyFailures UsageError"
    ),
    "_native": "__version__",
    "_summary": "JobFigures Snapshot Summary",
    "batches._batch_iterator": "AsyncBatchIterator BatchIterator",
    "batches._map_batches": "BatchTable amap_batches fetch_table map_batches",
    "client._async_client": "AsyncClient",
    "client._attempt": "Attempt",
    "client._client": "Client",
    "client._cookies": "CookieConflict Cookies",
    "client._errors": (
        "BlockedByNetworkPolicy BlockedByRobots BodyTooLarge ChecksumMismatch ConnectError ConnectTimeout "
        "ConnectionClosed CredentialsError DecodeError DnsError DuplicateName HostDown InvalidRequest PoolTimeout "
        "ProtocolError ProxyError ReadTimeout RedirectLoop RequestCancelled RequestError RequestTimeout TlsError "
        "TooManyRedirects TotalTimeout UnexpectedResponse"
    ),
    "client._fetch_many": "AsyncFetchMany FetchMany",
    "client._flow": "QueueFull",
    "client._functions": "delete get head options patch post put request",
    "client._headers": "Headers",
    "client._hooks": "ClientHooks",
    "client._prepared_request": "PreparedRequest",
    "client._request": "Request",
    "client._outcome": "Failed Outcome Succeeded",
    "client._response": "Redirect Response StatusError",
    "client._stream": "AsyncStreamedResponse StreamedResponse",
    "jobs._background": "Run",
    "jobs._fetch": "fetch start",
    "jobs._job": "Job RowStream",
    "jobs._plan": "Plan plan",
    "jobs._status": "JobRun JobStatus",
    "jobs._verification": "JobProblem JobVerification",
    "limits._concurrency_limit": "ConcurrencyLimit ConcurrencyStatistics",
    "limits._rate": "Rate RateStatistics",
    "limits._retry": "Retry RetryStatistics",
    "portal._portal": "Portal PortalCall",
    "serving._asgi_app": "AsgiApp",
    "tasks._amap": "TaskResults amap for_each",
    "tasks._as_completed": "CompletedFutures as_completed limited_as_completed",
    "tasks._gather": "gather",
    "tasks._map": "MapIterator map",
    "tasks._outcome": "TaskOutcome TaskStatistics",
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names.split()}
_TESTING = "testing"
"""The package that need not be imported by its name."""

if not TYPE_CHECKING:  # type checkers read the imports above
    __all__ = list(_MODULE_OF)

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF and name != _TESTING:
            from headgate._foreign import attribute_hint  # noqa: PLC0415 - only after a mistake

            raise AttributeError(f"module 'headgate' has no attribute {name!r}{attribute_hint(name)}")
        from importlib import import_module  # noqa: PLC0415 - only when something is used

        if name == _TESTING:
            return import_module("headgate.testing")
        value: object = getattr(import_module(f"headgate.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*_MODULE_OF, _TESTING])
