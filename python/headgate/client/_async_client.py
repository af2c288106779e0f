"""The client for event loops."""

import asyncio
from collections.abc import AsyncIterable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack, overload

from headgate._foreign import explained
from headgate._native import BatchTable
from headgate.batches._batch_iterator import AsyncBatchIterator
from headgate.batches._options import TableKeywords
from headgate.batches._supply import run_in_own_thread
from headgate.client._calls import async_tables
from headgate.client._client_options import ASYNC_CLIENT, AsyncClientArguments
from headgate.client._content import Source
from headgate.client._engine_client import EngineClient
from headgate.client._fetch_many import AsyncFetchMany
from headgate.client._log import is_observed
from headgate.client._loop_feeder import send_source_async
from headgate.client._loops import Loops
from headgate.client._native_requests import async_native_of
from headgate.client._pairs import Pairs
from headgate.client._request import (
    AsyncRequestKeywords,
    AsyncSendKeywords,
    Request,
    RequestLike,
    built,
    check_is_request,
    request_of,
    sent_with,
)
from headgate.client._response import Response, response_of
from headgate.client._stream import AsyncStreamedResponse, open_async_stream
from headgate.client._table_options import FETCH_TABLE, MAP_BATCHES
from headgate.client._tag import Tag
from headgate.client._url import UrlLike
from headgate.jobs._progress import ProgressTarget

if TYPE_CHECKING:
    from headgate.client._app import AppInLoop
    from headgate.serving._asgi_app import AsgiApp, AsgiCallable


class AsyncClient(EngineClient):
    """Makes requests, one by one or by the thousand, from any number of event loops: asyncio's and uvloop's.

    Unlike httpx, it follows redirects (`redirects="none"` follows none). Transient failures are retried (`retries=0`
    does not): if you get a 503, it is the result of the last attempt.

    Cancelling an `await` cancels its exchange. After a fork, the child starts another engine.

    >>> async with headgate.AsyncClient(base_url="http://127.0.0.1:8080", rate="500/s") as client:
    ...     print((await client.get("/hello")).raise_for_status().text)
    Hello, World!
    """

    __module__ = "headgate"

    @ASYNC_CLIENT.shown_by
    def __init__(
        self,
        *,
        base_url: UrlLike = "",
        params: Pairs | str | None = None,
        app: "AsgiCallable | AsgiApp | None" = None,
        **options: Unpack[AsyncClientArguments],
    ) -> None:
        """Starts the engine of the client.

        As in other libraries, `verify=True` and `http2=True`, which are the defaults, and `follow_redirects` and
        `allow_redirects`, which set `redirects`, are accepted.

        Args:
            base_url: The URL to which relative URLs are relative; its path stays.
            params: Parameters that are added to the query of each call's URL, whatever its host, except those whose
                names the URL or the `params` of the call have. Rows of tables have none.
            app: An ASGI application, or a `headgate.AsgiApp`, that responds to all requests in place of the network.
                The `base_url` is then `http://testserver`, unless you give one. It runs in the loop that
                uses the client first. Its startup runs when the `async with` block is entered, or before the first
                request, within the `total_timeout` of the client; its shutdown in `aclose`.
            **options: `help(headgate.AsyncClient.__init__)` describes each with its default.

        Raises:
            UsageError: An option has an invalid value.
            TypeError: There is no such option; the message has the one that is probably meant.
        """
        self._app: AppInLoop | None = None if app is None else _served(app)
        super().__init__(base_url, params, ASYNC_CLIENT, dict(options), self._app)
        self._loops = Loops(self._engine)
        self._use_loop()

    async def request(self, method: str, url: UrlLike, **options: Unpack[AsyncRequestKeywords]) -> Response:
        """Sends a request, and waits for its response. Cancelling the `await` cancels the request.

        >>> (await client.request("GET", "/echo")).json()["method"]
        'GET'

        Args:
            method: The method, such as `GET`.
            url: The URL: absolute, or relative to the `base_url`. The other arguments are the attributes of
                `headgate.Request`, without `tag`; `follow_redirects` or `allow_redirects` may replace `redirects`.

        Raises:
            RequestError: The request failed, or an argument has an invalid value; each error kind has a class.
            TypeError: There is no such argument.
            RuntimeError: The client is closed.
        """
        return await self.send(request_of(method, url, dict(options), "request"))

    def build_request(self, method: str, url: UrlLike, **options: Unpack[AsyncRequestKeywords]) -> Request:
        """Returns a request for `send`, with the arguments of `request`. See `Client.build_request`.

        >>> request = client.build_request("POST", "/echo", json={"a": 1})
        >>> request.headers["X-Trace"] = "7"
        >>> dict((await client.send(request)).json()["headers"])["X-Trace"]
        '7'
        """
        return built(method, url, dict(options))

    async def send(self, request: Request, **options: Unpack[AsyncSendKeywords]) -> Response:
        """Sends a `Request`. Raises as `request`.

        >>> (await client.send(headgate.Request("/hello", tag=7))).request.tag
        7

        Args:
            request: The request. `auth` and `redirects` replace its attributes of these names.
        """
        if options:
            request = sent_with(request, dict(options))
        check_is_request(request)
        self._use_loop()
        if is_observed(self._engine.options):
            from headgate.client._observed import send_observed_async  # noqa: PLC0415 - most clients are not observed

            return await send_observed_async(self._engine, self._loops, self._streams, request)
        self._streams.check("task", request)
        native = await async_native_of(request, self._engine.options)
        if isinstance(native.body, Source):
            with self._engine.request_for_app(native) as of_app:
                outcome = await send_source_async(self._engine, of_app, native.body)
            self._engine.raise_of_app(outcome)
            return response_of(request, outcome)
        return response_of(request, await self._loops.of_running_loop().send(native))

    async def get(self, url: UrlLike, **options: Unpack[AsyncRequestKeywords]) -> Response:
        """Sends a GET request. See `request`.

        >>> responses = await asyncio.gather(*(client.get(f"/{n}") for n in range(100)))
        >>> {response.status_code for response in responses}
        {200}
        """
        return await self.send(request_of("GET", url, dict(options), "get"))

    async def head(self, url: UrlLike, **options: Unpack[AsyncRequestKeywords]) -> Response:
        """Sends a HEAD request. See `request`.

        >>> (await client.head("/hello")).headers["content-length"]
        '13'
        """
        return await self.send(request_of("HEAD", url, dict(options), "head"))

    async def options(self, url: UrlLike, **options: Unpack[AsyncRequestKeywords]) -> Response:
        """Sends an OPTIONS request. See `request`.

        >>> (await client.options("/echo")).json()["method"]
        'OPTIONS'
        """
        return await self.send(request_of("OPTIONS", url, dict(options), "options"))

    async def post(self, url: UrlLike, **options: Unpack[AsyncRequestKeywords]) -> Response:
        """Sends a POST request. See `request`.

        >>> (await client.post("/echo", json={"a": 1})).json()["body"]
        '{"a":1}'
        """
        return await self.send(request_of("POST", url, dict(options), "post"))

    async def put(self, url: UrlLike, **options: Unpack[AsyncRequestKeywords]) -> Response:
        """Sends a PUT request. See `request`.

        >>> (await client.put("/echo", content=b"all of it")).json()["body"]
        'all of it'
        """
        return await self.send(request_of("PUT", url, dict(options), "put"))

    async def patch(self, url: UrlLike, **options: Unpack[AsyncRequestKeywords]) -> Response:
        """Sends a PATCH request. See `request`.

        >>> (await client.patch("/echo", data={"name": "Ann"})).json()["body"]
        'name=Ann'
        """
        return await self.send(request_of("PATCH", url, dict(options), "patch"))

    async def delete(self, url: UrlLike, **options: Unpack[AsyncRequestKeywords]) -> Response:
        """Sends a DELETE request. See `request`.

        >>> (await client.delete("/echo")).json()["method"]
        'DELETE'
        """
        return await self.send(request_of("DELETE", url, dict(options), "delete"))

    def stream(
        self, method: str, url: UrlLike, **options: Unpack[AsyncRequestKeywords]
    ) -> AbstractAsyncContextManager[AsyncStreamedResponse]:
        """Sends a request, and returns its response as soon as its headers have arrived. See `Client.stream`.

        >>> async with client.stream("GET", "/bytes/100000") as response:
        ...     print(sum([len(piece) async for piece in response.raise_for_status().aiter_bytes()]))
        100000

        Args:
            method: As for `Client.stream`.
            url: As for `Client.stream`.

        Returns:
            An asynchronous context manager for an `AsyncStreamedResponse`.

        Raises:
            Exception: As `Client.stream`, with the task in place of the thread.
        """
        self._use_loop()
        return open_async_stream(self._engine, self._streams, request_of(method, url, dict(options), "stream"))

    @overload
    def fetch_many(
        self,
        requests: Iterable[UrlLike] | AsyncIterable[UrlLike],
        *,
        ordered: bool = ...,
        progress: ProgressTarget = ...,
    ) -> AsyncFetchMany[None]: ...

    @overload
    def fetch_many(
        self,
        requests: Iterable[Request[Tag]] | AsyncIterable[Request[Tag]],
        *,
        ordered: bool = ...,
        progress: ProgressTarget = ...,
    ) -> AsyncFetchMany[Tag]: ...

    @overload
    def fetch_many(
        self,
        requests: Iterable[RequestLike] | AsyncIterable[RequestLike] | None = ...,
        *,
        ordered: bool = ...,
        progress: ProgressTarget = ...,
    ) -> AsyncFetchMany[Any]: ...

    @explained("fetch_many", lambda: ASYNC_CLIENT.entries)
    def fetch_many(
        self,
        requests: Iterable[RequestLike] | AsyncIterable[RequestLike] | None = None,
        *,
        ordered: bool = False,
        progress: ProgressTarget = False,
    ) -> AsyncFetchMany[Any]:
        """Makes many requests, and yields their outcomes in the order in which they finish.

        >>> async with client.fetch_many(f"/{n}" for n in range(100)) as outcomes:
        ...     print(sum([outcome.unwrap().is_success async for outcome in outcomes]))
        100

        Args:
            requests: As for `Client.fetch_many`, or an async iterable. A synchronous iterable is read in the loop: a
                slow generator, such as one that reads files, blocks the loop while it runs.
            ordered: Yields outcomes in the order of the requests.
            progress: As for `Client.fetch_many`; a function is called in the loop.

        Returns:
            An asynchronous iterator. Leaving its `async with` block cancels what is in flight; cancelling the wait for
            an outcome, as a timeout does, loses nothing within the block. Its `to_arrow_batches` returns results as
            record batches in place of outcomes.

        Raises:
            TypeError: `requests` is a single request.
            RuntimeError: The client is closed.
            StrayCancellation: While iterating: the source was cancelled, and the task that iterates was not.
            Exception: While iterating: whatever reading `requests` raised, after the outcomes of earlier requests.
        """
        self._use_loop()
        return AsyncFetchMany(self._streams, requests, ordered=ordered, progress=progress)

    @MAP_BATCHES.shown_by
    def map_batches(self, batches: Any, **options: Unpack[TableKeywords]) -> AsyncBatchIterator:  # noqa: ANN401 - whatever speaks Arrow
        """Makes one request for each row of a table, and yields the results in batches.

        It is `Client.map_batches` for an event loop, which it does not block.

        >>> async for batch in client.map_batches(pyarrow.table({"url": ["/hello", "/status/404"]})):
        ...     print(sorted(pyarrow.record_batch(batch)["status"].to_pylist()))
        [200, 404]

        Args:
            batches: As for `headgate.amap_batches`.
            **options: `help(headgate.AsyncClient.map_batches)` describes each with its default.

        Returns:
            An asynchronous iterator over batches. Leaving its `async with` block cancels what is in flight.

        Raises:
            UsageError: An option has an invalid value.
            InputError: While iterating: the input lacks a column that is needed, or its batches have different columns.
            TypeError: `batches`, or what it yields, is no table; or an option is one of the client.
            RuntimeError: The client is closed.
        """
        self._use_loop()
        return async_tables(self._streams, self._base_url, batches, MAP_BATCHES, dict(options))

    @FETCH_TABLE.shown_by
    async def fetch_table(self, table: Any, **options: Unpack[TableKeywords]) -> BatchTable:  # noqa: ANN401 - as above
        """Makes one request for each row of a table, and returns the results as a table.

        Cancelling it cancels what is in flight.

        >>> results = await client.fetch_table(pyarrow.table({"url": ["/hello", "/status/404"]}))
        >>> sorted(pyarrow.table(results)["status"].to_pylist())
        [200, 404]

        Args:
            table: As for `map_batches`.
            **options: `help(headgate.AsyncClient.fetch_table)` describes each with its default.

        Returns:
            The results, as those of `headgate.fetch_table`.

        Raises:
            Exception: As `map_batches` and what it returns.
        """
        self._use_loop()
        return await async_tables(self._streams, self._base_url, table, FETCH_TABLE, dict(options)).table()

    async def aclose(self) -> None:
        """Cancels what is in flight, and closes all connections. Idempotent.

        >>> await client.aclose()
        >>> client.is_closed
        True
        >>> await client.get("/hello")
        Traceback (most recent call last):
        RuntimeError: the client is closed: it makes no more requests
        """
        try:
            await run_in_own_thread(self._engine.close)
        finally:
            # If it was cancelled before it began, the engine is still open.
            if self._engine.is_closed:
                self._loops.retire(asyncio.get_running_loop())
            if self._app is not None:
                await self._app.aclose()

    async def __aenter__(self) -> Self:
        self._engine.check_is_open()
        if self._app is not None:
            try:
                await self._app.startup()
            except BaseException:
                with suppress(Exception):  # what has failed first is raised
                    await self.aclose()
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _use_loop(self) -> None:
        """Lets an asynchronous `token()` run in the running loop."""
        provider = self._engine.options.token_provider
        if provider is not None and (loop := _running_loop()) is not None:
            provider.use_loop(loop)

    if not TYPE_CHECKING:  # type checkers refuse this block

        def __enter__(self) -> NoReturn:
            raise TypeError("an AsyncClient is for `async with`: for `with`, there is headgate.Client")

        __exit__ = __enter__

    def __del__(self) -> None:
        if hasattr(self, "_loops"):
            self._loops.retire()


def _served(app: "AsgiCallable | AsgiApp") -> "AppInLoop":
    from headgate.client._app import AppInLoop  # noqa: PLC0415 - most clients have none

    return AppInLoop(app)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """Returns the running loop; there is none where a client is only created."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
