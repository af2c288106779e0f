"""The clients, for threads and for event loops."""

import asyncio
from collections.abc import AsyncIterable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any, NoReturn, Self, Unpack

from headgate._native import BatchTable
from headgate._option import OptionSet
from headgate._summary import Snapshot
from headgate.batches._batch_iterator import AsyncBatchIterator, BatchIterator
from headgate.batches._options import TableKeywords
from headgate.batches._supply import run_in_own_thread
from headgate.client._calls import async_tables, tables
from headgate.client._client_options import ASYNC_CLIENT, CLIENT, ClientKeywords, base_url_of, options_of
from headgate.client._engine import Engine
from headgate.client._fetch_many import AsyncFetchMany, FetchMany
from headgate.client._loops import Loops
from headgate.client._request import Request, RequestKeywords, RequestLike, check_is_request, native_of, request_of
from headgate.client._response import Response, response_of
from headgate.client._stream import AsyncStreamedResponse, OpenStreams, StreamedResponse, open_async_stream, open_stream
from headgate.client._table_options import FETCH_TABLE, MAP_BATCHES
from headgate.jobs._notebook import refuse_to_block_a_loop
from headgate.jobs._progress import ProgressTarget


class _EngineClient:
    """The base of both clients: an engine and its statistics."""

    def __init__(self, base_url: str, options: OptionSet[Any], given: dict[str, Any]) -> None:
        self._base_url = base_url_of(base_url)
        self._engine = Engine(options_of(options, given, self._base_url), "client")
        self._streams = OpenStreams(self._engine)

    def statistics(self) -> Snapshot:
        """Returns the statistics of the client: the snapshot that the command line shows of a job.

        It counts all requests of the client. A row is a request here.

        >>> client.statistics().in_flight
        0
        """
        return self._engine.statistics()

    def __repr__(self) -> str:
        return self._engine.described(type(self).__name__, self._base_url)

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        return self._engine.table_of_statistics(repr(self))

    def __getstate__(self) -> NoReturn:
        raise TypeError("a client can't be pickled: make one where it is used")


class Client(_EngineClient):
    """Makes requests, one by one or by the thousand, from any number of threads.

    Unlike httpx, it follows redirects (`redirects="none"` follows none). Transient failures are retried (`retries=0`
    does not): if you get a 503, it is the result of the last attempt.

    One engine serves all threads. After a fork, the child starts another one with its first request.

    >>> with headgate.Client(base_url="http://127.0.0.1:8080", rate="500/s") as client:
    ...     print(client.get("/hello").raise_for_status().text)
    Hello, World!
    """

    @CLIENT.shown_by
    def __init__(self, *, base_url: str = "", **options: Unpack[ClientKeywords]) -> None:
        """Starts the engine of the client.

        Args:
            base_url: The URL to which relative URLs are relative; its path stays.
            **options: `help(headgate.Client.__init__)` describes each with its default.

        Raises:
            UsageError: An option has an invalid value.
            TypeError: There is no such option; the message has the one that is probably meant.
        """
        super().__init__(base_url, CLIENT, dict(options))

    def request(self, method: str, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a request, and waits for its response. Ctrl-C ends the wait and cancels the request.

        >>> client.request("GET", "/echo", headers={"X-Trace": "7"}).json()["method"]
        'GET'

        Args:
            method: The method, such as `GET`.
            url: The URL: absolute, or relative to the `base_url`. The other arguments are the attributes of
                `headgate.Request`, without `tag`.

        Raises:
            RequestError: The request failed, or an argument has an invalid value; each error kind has a class.
            TypeError: There is no such argument.
            RuntimeError: The client is closed.
        """
        return self.send(request_of(method, url, dict(options), "request"))

    def send(self, request: Request) -> Response:
        """Sends a `Request`. Raises as `request`.

        >>> client.send(headgate.Request("/hello", tag=7)).request.tag
        7
        """
        check_is_request(request)
        native = self._engine.native.call(native_of(request, self._base_url))
        return response_of(request, native if native is not None else self._engine.raise_closed())

    def get(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a GET request. See `request`.

        >>> client.get("/echo", params={"page": 2}).json()["path"]
        '/echo?page=2'
        """
        return self.send(request_of("GET", url, dict(options), "get"))

    def head(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a HEAD request. See `request`.

        >>> client.head("/hello").headers["content-length"]
        '13'
        """
        return self.send(request_of("HEAD", url, dict(options), "head"))

    def options(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends an OPTIONS request. See `request`.

        >>> client.options("/echo").json()["method"]
        'OPTIONS'
        """
        return self.send(request_of("OPTIONS", url, dict(options), "options"))

    def post(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a POST request. See `request`.

        >>> client.post("/echo", json={"a": 1}).json()["body"]
        '{"a":1}'
        """
        return self.send(request_of("POST", url, dict(options), "post"))

    def put(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a PUT request. See `request`.

        >>> client.put("/echo", content=b"all of it").json()["body"]
        'all of it'
        """
        return self.send(request_of("PUT", url, dict(options), "put"))

    def patch(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a PATCH request. See `request`.

        >>> client.patch("/echo", data={"name": "Ann", "tag": ["a", "b"]}).json()["body"]
        'name=Ann&tag=a&tag=b'
        """
        return self.send(request_of("PATCH", url, dict(options), "patch"))

    def delete(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a DELETE request. See `request`.

        >>> client.delete("/echo").json()["method"]
        'DELETE'
        """
        return self.send(request_of("DELETE", url, dict(options), "delete"))

    def stream(
        self, method: str, url: str, **options: Unpack[RequestKeywords]
    ) -> AbstractContextManager[StreamedResponse]:
        """Sends a request, and returns its response as soon as its headers have arrived: you read the body later.

        At most about 256 KiB of the body are in memory, and over HTTP/2 up to 1 MiB more: while you don't read, the
        server waits. So `max_body_size` doesn't apply. Until you have the response, redirects are followed and
        transient failures are retried; after that, iterating raises errors. `timeout` limits the time until the
        headers have arrived, and then the time between two pieces of the body. It doesn't run while you don't read.

        An open stream counts as one request in flight, for the client and for its host. After you have read to the end,
        the next request can use the connection; leaving the block earlier closes it.

        >>> with client.stream("GET", "/bytes/100000") as response:
        ...     print(sum(len(piece) for piece in response.raise_for_status().iter_bytes()))
        100000

        Args:
            method: The method, such as `GET`.
            url: The URL: absolute, or relative to the `base_url`. The other arguments are those of `request`.

        Returns:
            A context manager for a `StreamedResponse`.

        Raises:
            RequestError: The request failed, or an argument has an invalid value; when the block is entered.
            TypeError: There is no such argument.
            RuntimeError: The client is closed, or this thread has the maximum number of open streams.
        """
        return open_stream(
            self._engine, self._streams, self._base_url, request_of(method, url, dict(options), "stream")
        )

    def fetch_many(
        self, requests: Iterable[RequestLike] | None = None, *, ordered: bool = False, progress: ProgressTarget = False
    ) -> FetchMany:
        """Makes many requests, and yields their outcomes in the order in which they finish.

        >>> sum(outcome.unwrap().is_success for outcome in client.fetch_many(f"/{n}" for n in range(100)))
        100

        Args:
            requests: URLs, `headgate.Request`s or mappings with their attributes; read in this thread, and only as they
                are needed. Without them, the iterator stays open until `finish` is called on it.
            ordered: Yields outcomes in the order of the requests.
            progress: Shows progress on standard error while you take outcomes; or a function, which is called with a
                `Snapshot` (see `statistics`) about ten times a second, in this thread. An exception that it raises ends
                the iteration.

        Returns:
            An iterator. Leaving its `with` block cancels what is in flight. Its `submit` adds requests;
            its `to_arrow_batches` returns results as record batches in place of outcomes.

        Raises:
            TypeError: `requests` is a single request.
            RuntimeError: The client is closed.
            Exception: While iterating: whatever reading `requests` raised, after the outcomes of earlier requests.
        """
        return FetchMany(self._engine, self._base_url, requests, ordered=ordered, progress=progress)

    @MAP_BATCHES.shown_by
    def map_batches(self, batches: Any, **options: Unpack[TableKeywords]) -> BatchIterator:  # noqa: ANN401 - whatever speaks Arrow
        """Makes one request for each row of a table, and yields the results in batches.

        It is `headgate.map_batches` with the connections and the limits of the client, and URLs may be relative to its
        `base_url`. Values of responses are extracted by the client's `extract` and by this one.

        >>> table = pyarrow.table({"url": ["/hello", "/status/404"]})
        >>> for batch in client.map_batches(table):
        ...     print(sorted(pyarrow.record_batch(batch)["status"].to_pylist()))
        [200, 404]

        Args:
            batches: As for `headgate.map_batches`.
            **options: `help(headgate.Client.map_batches)` describes each with its default.

        Returns:
            An iterator over batches. Leaving its `with` block cancels what is in flight.

        Raises:
            UsageError: An option has an invalid value.
            InputError: While iterating: the input lacks a column that is needed, or its batches have different columns.
            TypeError: `batches`, or what it yields, is no table; or an option is one of the client.
            RuntimeError: The client is closed, or this thread runs an event loop, which iterating would block.
        """
        refuse_to_block_a_loop("map_batches", "use an AsyncClient")
        return tables(self._engine, self._base_url, batches, MAP_BATCHES, dict(options))

    @FETCH_TABLE.shown_by
    def fetch_table(self, table: Any, **options: Unpack[TableKeywords]) -> BatchTable:  # noqa: ANN401 - as above
        """Makes one request for each row of a table, and returns the results as a table.

        It is `map_batches` with all batches at once: the results have to fit in memory.

        >>> results = client.fetch_table(pyarrow.table({"url": ["/hello", "/status/404"]}))
        >>> sorted(pyarrow.table(results)["status"].to_pylist())
        [200, 404]

        Args:
            table: As for `headgate.fetch_table`.
            **options: `help(headgate.Client.fetch_table)` describes each with its default.

        Returns:
            The results, as those of `headgate.fetch_table`.

        Raises:
            Exception: As `map_batches` and what it returns.
        """
        refuse_to_block_a_loop("fetch_table", "use an AsyncClient")
        with tables(self._engine, self._base_url, table, FETCH_TABLE, dict(options)) as batches:
            return batches.table()

    def close(self) -> None:
        """Cancels what is in flight, and closes all connections. Idempotent.

        >>> client.close()
        >>> client.get("/hello")
        Traceback (most recent call last):
        RuntimeError: the client is closed: it makes no more requests
        """
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_EngineClient):
    """Makes requests, one by one or by the thousand, from any number of event loops: asyncio's and uvloop's.

    Unlike httpx, it follows redirects (`redirects="none"` follows none). Transient failures are retried (`retries=0`
    does not): if you get a 503, it is the result of the last attempt.

    Cancelling an `await` cancels its exchange. After a fork, the child starts another engine.

    >>> async with headgate.AsyncClient(base_url="http://127.0.0.1:8080", rate="500/s") as client:
    ...     print((await client.get("/hello")).raise_for_status().text)
    Hello, World!
    """

    @ASYNC_CLIENT.shown_by
    def __init__(self, *, base_url: str = "", **options: Unpack[ClientKeywords]) -> None:
        """Starts the engine of the client.

        Args:
            base_url: The URL to which relative URLs are relative; its path stays.
            **options: `help(headgate.AsyncClient.__init__)` describes each with its default.

        Raises:
            UsageError: An option has an invalid value.
            TypeError: There is no such option; the message has the one that is probably meant.
        """
        super().__init__(base_url, ASYNC_CLIENT, dict(options))
        self._loops = Loops(self._engine)

    async def request(self, method: str, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a request, and waits for its response. Cancelling the `await` cancels the request.

        >>> (await client.request("GET", "/echo")).json()["method"]
        'GET'

        Args:
            method: The method, such as `GET`.
            url: The URL: absolute, or relative to the `base_url`. The other arguments are the attributes of
                `headgate.Request`, without `tag`.

        Raises:
            RequestError: The request failed, or an argument has an invalid value; each error kind has a class.
            TypeError: There is no such argument.
            RuntimeError: The client is closed.
        """
        return await self.send(request_of(method, url, dict(options), "request"))

    async def send(self, request: Request) -> Response:
        """Sends a `Request`. Raises as `request`.

        >>> (await client.send(headgate.Request("/hello", tag=7))).request.tag
        7
        """
        check_is_request(request)
        return response_of(request, await self._loops.of_running_loop().send(native_of(request, self._base_url)))

    async def get(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a GET request. See `request`.

        >>> responses = await asyncio.gather(*(client.get(f"/{n}") for n in range(100)))
        >>> {response.status_code for response in responses}
        {200}
        """
        return await self.send(request_of("GET", url, dict(options), "get"))

    async def head(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a HEAD request. See `request`.

        >>> (await client.head("/hello")).headers["content-length"]
        '13'
        """
        return await self.send(request_of("HEAD", url, dict(options), "head"))

    async def options(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends an OPTIONS request. See `request`.

        >>> (await client.options("/echo")).json()["method"]
        'OPTIONS'
        """
        return await self.send(request_of("OPTIONS", url, dict(options), "options"))

    async def post(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a POST request. See `request`.

        >>> (await client.post("/echo", json={"a": 1})).json()["body"]
        '{"a":1}'
        """
        return await self.send(request_of("POST", url, dict(options), "post"))

    async def put(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a PUT request. See `request`.

        >>> (await client.put("/echo", content=b"all of it")).json()["body"]
        'all of it'
        """
        return await self.send(request_of("PUT", url, dict(options), "put"))

    async def patch(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a PATCH request. See `request`.

        >>> (await client.patch("/echo", data={"name": "Ann"})).json()["body"]
        'name=Ann'
        """
        return await self.send(request_of("PATCH", url, dict(options), "patch"))

    async def delete(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a DELETE request. See `request`.

        >>> (await client.delete("/echo")).json()["method"]
        'DELETE'
        """
        return await self.send(request_of("DELETE", url, dict(options), "delete"))

    def stream(
        self, method: str, url: str, **options: Unpack[RequestKeywords]
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
        return open_async_stream(
            self._engine, self._streams, self._base_url, request_of(method, url, dict(options), "stream")
        )

    def fetch_many(
        self,
        requests: Iterable[RequestLike] | AsyncIterable[RequestLike] | None = None,
        *,
        ordered: bool = False,
        progress: ProgressTarget = False,
    ) -> AsyncFetchMany:
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
        return AsyncFetchMany(self._engine, self._base_url, requests, ordered=ordered, progress=progress)

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
        return async_tables(self._engine, self._base_url, batches, MAP_BATCHES, dict(options))

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
        return await async_tables(self._engine, self._base_url, table, FETCH_TABLE, dict(options)).table()

    async def aclose(self) -> None:
        """Cancels what is in flight, and closes all connections. Idempotent.

        >>> await client.aclose()
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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if hasattr(self, "_loops"):
            self._loops.retire()
