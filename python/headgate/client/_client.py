"""The client for threads.

Creating it imports as little as possible, because a short program waits for that: each method imports what it needs.
"""

from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack, overload

from headgate._foreign import explained
from headgate._native import BatchTable
from headgate._option import OptionSet, shown_by
from headgate.client._client_options import CLIENT, ClientArguments
from headgate.client._engine_client import EngineClient

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.batches._batch_iterator import BatchIterator
    from headgate.batches._options import TableKeywords
    from headgate.client._app import AppInThread
    from headgate.client._fetch_many import FetchMany
    from headgate.client._pairs import Pairs
    from headgate.client._request import Request, RequestKeywords, RequestLike, SendKeywords
    from headgate.client._response import Response
    from headgate.client._stream import StreamedResponse
    from headgate.client._tag import Tag
    from headgate.client._url import UrlLike
    from headgate.jobs._progress import ProgressTarget
    from headgate.serving._asgi_app import AsgiApp, AsgiCallable


def _map_batches() -> OptionSet[Any]:
    from headgate.client._table_options import MAP_BATCHES  # noqa: PLC0415 - as `Client._send`

    return MAP_BATCHES


def _fetch_table() -> OptionSet[Any]:
    from headgate.client._table_options import FETCH_TABLE  # noqa: PLC0415 - as `Client._send`

    return FETCH_TABLE


class Client(EngineClient):
    """Makes requests, one by one or by the thousand, from any number of threads.

    Unlike httpx, it follows redirects (`redirects="none"` follows none). Transient failures are retried (`retries=0`
    does not): if you get a 503, it is the result of the last attempt.

    One engine serves all threads. After a fork, the child starts another one with its first request.

    >>> with headgate.Client(base_url="http://127.0.0.1:8080", rate="500/s") as client:
    ...     print(client.get("/hello").raise_for_status().text)
    Hello, World!
    """

    __module__ = "headgate"

    @shown_by(lambda: CLIENT)
    def __init__(
        self,
        *,
        base_url: "UrlLike" = "",
        params: "Pairs | str | None" = None,
        app: "AsgiCallable | AsgiApp | None" = None,
        **options: Unpack[ClientArguments],
    ) -> None:
        """Starts the engine of the client.

        As in other libraries, `verify=True` and `http2=True`, which are the defaults, and `follow_redirects` and
        `allow_redirects`, which set `redirects`, are accepted.

        Args:
            base_url: The URL to which relative URLs are relative; its path stays.
            params: Parameters that are added to the query of each call's URL, whatever its host, except those whose
                names the URL or the `params` of the call have. Rows of tables have none.
            app: An ASGI application, or a `headgate.AsgiApp`, that responds to all requests in place of the network.
                The `base_url` is then `http://testserver`, unless you give one. It runs in a thread. Its startup
                runs when the `with` block is entered, or before the first request, within the `total_timeout` of the
                client; its shutdown in `close`.
            **options: `help(headgate.Client.__init__)` describes each with its default.

        Raises:
            UsageError: An option has an invalid value.
            TypeError: There is no such option; the message has the one that is probably meant.
        """
        self._app: AppInThread | None = None if app is None else self._served(app)
        super().__init__(base_url, params, CLIENT, dict(options), self._app)

    def request(self, method: str, url: "UrlLike", **options: Unpack["RequestKeywords"]) -> "Response":
        """Sends a request, and waits for its response. Ctrl-C ends the wait and cancels the request.

        >>> client.request("GET", "/echo", headers={"X-Trace": "7"}).json()["method"]
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
        return self._send(method, url, options, "request")

    def build_request(self, method: str, url: "UrlLike", **options: Unpack["RequestKeywords"]) -> "Request":
        """Returns a request for `send`, with the arguments of `request`. Its headers can be changed.

        What the client adds, such as its `base_url`, is added when the request is sent.

        >>> request = client.build_request("POST", "/echo", json={"a": 1})
        >>> request.headers["X-Trace"] = "7"
        >>> dict(client.send(request).json()["headers"])["X-Trace"]
        '7'

        Args:
            method: As for `request`.
            url: As for `request`.

        Raises:
            TypeError: There is no such argument.
        """
        from headgate.client._request import built  # noqa: PLC0415 - as `_send`

        return built(method, url, dict(options))

    def send(self, request: "Request", **options: Unpack["SendKeywords"]) -> "Response":
        """Sends a `Request`. Raises as `request`.

        >>> client.send(headgate.Request("/hello", tag=7)).request.tag
        7

        Args:
            request: The request. `auth` and `redirects` replace its attributes of these names.
        """
        from headgate.client._send import send  # noqa: PLC0415 - as `_send`

        if options:
            from headgate.client._request import sent_with  # noqa: PLC0415 - as `_send`

            request = sent_with(request, dict(options))
        return send(self._engine, self._streams, request)

    def get(self, url: "UrlLike", **options: Unpack["RequestKeywords"]) -> "Response":
        """Sends a GET request. See `request`.

        >>> client.get("/echo", params={"page": 2}).json()["path"]
        '/echo?page=2'
        """
        return self._send("GET", url, options, "get")

    def head(self, url: "UrlLike", **options: Unpack["RequestKeywords"]) -> "Response":
        """Sends a HEAD request. See `request`.

        >>> client.head("/hello").headers["content-length"]
        '13'
        """
        return self._send("HEAD", url, options, "head")

    def options(self, url: "UrlLike", **options: Unpack["RequestKeywords"]) -> "Response":
        """Sends an OPTIONS request. See `request`.

        >>> client.options("/echo").json()["method"]
        'OPTIONS'
        """
        return self._send("OPTIONS", url, options, "options")

    def post(self, url: "UrlLike", **options: Unpack["RequestKeywords"]) -> "Response":
        """Sends a POST request. See `request`.

        >>> client.post("/echo", json={"a": 1}).json()["body"]
        '{"a":1}'
        """
        return self._send("POST", url, options, "post")

    def put(self, url: "UrlLike", **options: Unpack["RequestKeywords"]) -> "Response":
        """Sends a PUT request. See `request`.

        >>> client.put("/echo", content=b"all of it").json()["body"]
        'all of it'
        """
        return self._send("PUT", url, options, "put")

    def patch(self, url: "UrlLike", **options: Unpack["RequestKeywords"]) -> "Response":
        """Sends a PATCH request. See `request`.

        >>> client.patch("/echo", data={"name": "Ann", "tag": ["a", "b"]}).json()["body"]
        'name=Ann&tag=a&tag=b'
        """
        return self._send("PATCH", url, options, "patch")

    def delete(self, url: "UrlLike", **options: Unpack["RequestKeywords"]) -> "Response":
        """Sends a DELETE request. See `request`.

        >>> client.delete("/echo").json()["method"]
        'DELETE'
        """
        return self._send("DELETE", url, options, "delete")

    def stream(
        self, method: str, url: "UrlLike", **options: Unpack["RequestKeywords"]
    ) -> AbstractContextManager["StreamedResponse"]:
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
            PoolTimeout: This thread has as many streams open as the client makes requests at a time.
            RuntimeError: The client is closed.
        """
        from headgate.client._request import request_of  # noqa: PLC0415 - as `_send`
        from headgate.client._stream import open_stream  # noqa: PLC0415 - as `_send`

        return open_stream(self._engine, self._streams, request_of(method, url, dict(options), "stream"))

    @overload
    def fetch_many(
        self, requests: "Iterable[UrlLike]", *, ordered: bool = ..., progress: "ProgressTarget" = ...
    ) -> "FetchMany[None]": ...

    @overload
    def fetch_many(
        self, requests: "Iterable[Request[Tag]]", *, ordered: bool = ..., progress: "ProgressTarget" = ...
    ) -> "FetchMany[Tag]": ...

    @overload
    def fetch_many(
        self, requests: "Iterable[RequestLike] | None" = ..., *, ordered: bool = ..., progress: "ProgressTarget" = ...
    ) -> "FetchMany[Any]": ...

    @explained("fetch_many", lambda: CLIENT.entries)
    def fetch_many(
        self,
        requests: "Iterable[RequestLike] | None" = None,
        *,
        ordered: bool = False,
        progress: "ProgressTarget" = False,
    ) -> "FetchMany[Any]":
        """Makes many requests, and yields their outcomes in the order in which they finish.

        >>> sum(outcome.unwrap().is_success for outcome in client.fetch_many(f"/{n}" for n in range(100)))
        100

        Args:
            requests: URLs, `headgate.Request`s or mappings with their attributes; read by the threads that take
                outcomes, one at a time, and only as they are needed. Without them, the iterator stays open until
                `finish` is called on it.
            ordered: Yields outcomes in the order of the requests.
            progress: Shows progress on standard error while you take outcomes; or a function, which is called with a
                `Snapshot` (see `statistics`) about ten times a second, in a thread that takes outcomes. An exception
                that it raises ends the iteration.

        Returns:
            An iterator, which threads may share. Leaving its `with` block cancels what is in flight. Its `submit` adds
            requests; its `to_arrow_batches` returns results as record batches in place of outcomes.

        Raises:
            TypeError: `requests` is a single request.
            RuntimeError: The client is closed.
            Exception: While iterating: whatever reading `requests` raised, after the outcomes of earlier requests.
        """
        from headgate.client._fetch_many import FetchMany  # noqa: PLC0415 - as `_send`

        return FetchMany(self._streams, requests, ordered=ordered, progress=progress)

    @shown_by(_map_batches)
    def map_batches(self, batches: Any, **options: Unpack["TableKeywords"]) -> "BatchIterator":  # noqa: ANN401 - whatever speaks Arrow
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
        from headgate.client._calls import tables  # noqa: PLC0415 - as `_send`
        from headgate.jobs._notebook import refuse_to_block_a_loop  # noqa: PLC0415 - as `_send`

        refuse_to_block_a_loop("map_batches", "use an AsyncClient")
        return tables(self._streams, self._base_url, batches, _map_batches(), dict(options))

    @shown_by(_fetch_table)
    def fetch_table(self, table: Any, **options: Unpack["TableKeywords"]) -> BatchTable:  # noqa: ANN401 - as above
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
        from headgate.client._calls import tables  # noqa: PLC0415 - as `_send`
        from headgate.jobs._notebook import refuse_to_block_a_loop  # noqa: PLC0415 - as `_send`

        refuse_to_block_a_loop("fetch_table", "use an AsyncClient")
        with tables(self._streams, self._base_url, table, _fetch_table(), dict(options)) as batches:
            return batches.table()

    def close(self) -> None:
        """Cancels what is in flight, and closes all connections. Idempotent.

        >>> client.close()
        >>> client.is_closed
        True
        >>> client.get("/hello")
        Traceback (most recent call last):
        RuntimeError: the client is closed: it makes no more requests
        """
        self._engine.close()
        if self._app is not None:
            self._app.close()

    def __enter__(self) -> Self:
        self._engine.check_is_open()
        if self._app is not None:
            try:
                self._app.startup()
            except BaseException:
                with suppress(BaseException):  # what has failed first is raised
                    self.close()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    if not TYPE_CHECKING:  # type checkers refuse this block

        def __aenter__(self) -> NoReturn:
            raise TypeError("a Client is for `with`: for `async with`, there is headgate.AsyncClient")

        __aexit__ = __aenter__

    def _served(self, app: "AsgiCallable | AsgiApp") -> "AppInThread":
        from weakref import finalize  # noqa: PLC0415 - most clients have none

        from headgate.client._app import AppInThread  # noqa: PLC0415 - as above

        served = AppInThread(app)
        finalize(self, served.request_stop).atexit = False
        return served

    def _send(self, method: str, url: "UrlLike", options: "RequestKeywords", of: str) -> "Response":
        from headgate.client._request import request_of  # noqa: PLC0415 - creating a client doesn't need it

        return self.send(request_of(method, url, dict(options), of))
