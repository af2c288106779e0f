"""The client for threads."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import NoReturn, Self, Unpack

from headgate._summary import Snapshot
from headgate.client._client_options import CLIENT, ClientKeywords, base_url_of, options_of
from headgate.client._engine import Engine
from headgate.client._many import FetchMany
from headgate.client._methods import request_of
from headgate.client._open_streams import OpenStreams
from headgate.client._request import Asked, Request
from headgate.client._request_keywords import RequestKeywords
from headgate.client._response import Response, response_of
from headgate.client._stream import StreamedResponse, opened


class Client:
    """Makes requests, one by one or by the thousand, from any number of threads.

    Unlike httpx, it follows redirects (`max_redirects=0` follows none), and asks again what fails in a way that may
    pass (`retries=0` doesn't): a `Response` with status 503 is what the last attempt has brought.

        with headgate.Client(base_url="https://api.example.com", rate="50/s") as client:
            user = client.get("/users/1").raise_for_status().json()

    One engine serves all threads. After a fork, the child starts one of its own with its first request.
    """

    @CLIENT.shown_by
    def __init__(self, *, base_url: str = "", **options: Unpack[ClientKeywords]) -> None:
        """Starts the engine of the client.

        Args:
            base_url: What relative URLs are relative to; its path stays.
            **options: `help(headgate.Client.__init__)` describes each with its default.

        Raises:
            UsageError: An option can't be.
            TypeError: There is no such option; named is the one that is meant.
        """
        self._base_url = base_url_of(base_url)
        self._engine = Engine(options_of(dict(options), "Client"), "client")
        self._streams = OpenStreams(self._engine)

    def request(self, method: str, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """Sends a request, and waits for its answer.

        Raises:
            RequestError: There is no usable answer; a class of its own for each kind of error.
            RuntimeError: The client is closed.
        """
        return self.send(request_of(method, url, dict(options), "request"))

    def send(self, request: Request) -> Response:
        """Sends a request that was made before. Raises as `request`."""
        answer = self._engine.native.call(request.native(self._base_url))
        return response_of(request, answer if answer is not None else self._engine.refuse())

    def get(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """GET. See `request`."""
        return self.send(request_of("GET", url, dict(options), "get"))

    def head(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """HEAD. See `request`."""
        return self.send(request_of("HEAD", url, dict(options), "head"))

    def post(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """POST. See `request`."""
        return self.send(request_of("POST", url, dict(options), "post"))

    def put(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """PUT. See `request`."""
        return self.send(request_of("PUT", url, dict(options), "put"))

    def patch(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """PATCH. See `request`."""
        return self.send(request_of("PATCH", url, dict(options), "patch"))

    def delete(self, url: str, **options: Unpack[RequestKeywords]) -> Response:
        """DELETE. See `request`."""
        return self.send(request_of("DELETE", url, dict(options), "delete"))

    def stream(
        self, method: str, url: str, **options: Unpack[RequestKeywords]
    ) -> AbstractContextManager[StreamedResponse]:
        """Sends a request, and gives its response out when its head has come: the body is taken while it comes.

            with client.stream("GET", "/large.csv") as response:
                for piece in response.raise_for_status().iter_bytes():
                    file.write(piece)

        In memory there are never more than about 256 KiB of the body, over HTTP/2 with a window of up to 1 MiB before
        it: where it isn't taken, the server waits. So `max_body_bytes` is not for it. Redirects are followed, and what
        may pass is asked again, until the head of an answer is given out; after that, what goes wrong is raised by
        iterating. `timeout_s` is the time for the head, and then that between two pieces of the body, which does not
        run while nothing is taken.

        An open stream takes one of the `concurrency` places of the client, and of those of its host. Reading to the end
        gives the connection to the next request; leaving the block before closes it.

        Args:
            method: `GET`, or what it is to be.
            url: Absolute, or relative to the `base_url`. The rest is as for `request`.

        Returns:
            A context manager for a `StreamedResponse`.

        Raises:
            RequestError: There is no usable answer; when the block is entered.
            RuntimeError: The client is closed, or this thread has as many streams open as there may be.
        """
        return opened(self._engine, self._streams, self._base_url, request_of(method, url, dict(options), "stream"))

    def fetch_many(self, requests: Iterable[Asked] | None = None, *, ordered: bool = False) -> FetchMany:
        """Outcomes of many requests, in the order in which they are answered.

        Args:
            requests: URLs, `headgate.Request`s or mapping of what these have; read in this thread, and only as far as
                there is room. Without them, it goes on until `finish` is called on what is returned.
            ordered: Gives outcomes in the order of the requests.

        Returns:
            An iterator. Leaving its `with` block cancels what is in flight. `submit` on it asks for more.
        """
        return FetchMany(self._engine, self._base_url, requests, ordered=ordered)

    def statistics(self) -> Snapshot:
        """What it has done, and does now."""
        return self._engine.statistics()

    def close(self) -> None:
        """Cancels what is in flight, and closes all connections. Again: nothing."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<headgate.Client{' of ' + self._base_url if self._base_url else ''}{_closed(self._engine)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.statistics()._repr_html_()

    def __getstate__(self) -> NoReturn:
        raise TypeError("a client can't be pickled: make one where it is used")


def _closed(engine: Engine) -> str:
    return " (closed)" if engine.is_closed else ""
