"""The requests that a mock receives, of which it keeps the newest."""

import json
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, overload
from urllib.parse import parse_qs, urlsplit

from headgate.client._headers import Headers
from headgate.testing._form import Form, MockFile, form_of
from headgate.testing._response import MockResponse


class MockRequest:
    """A request that a mock received.

    >>> with headgate.testing.mock() as server:
    ...     route = server.post("/users/{name}")
    ...     response = client.post("/users/ann", params={"page": 2}, json={"id": 1})
    >>> request = route.calls[0].request
    >>> request.method, request.url, request.path_params, request.params
    ('POST', 'http://127.0.0.1:8080/users/ann?page=2', {'name': 'ann'}, {'page': ['2']})
    >>> request.headers["content-type"], request.content, request.text, request.json()
    ('application/json', b'{"id":1}', '{"id":1}', {'id': 1})
    >>> request.form, request.files, request.cookies
    ({}, {}, {})

    Attributes:
        method: The method.
        url: The whole URL, as it was sent.
        headers: The headers, by their case-insensitive names.
        content: The body, as it was sent.
        path_params: The values of `{name}` in the pattern of its route, or of named groups of a regular expression.
    """

    __module__ = "headgate.testing"

    def __init__(self, method: str, url: str, headers: Headers, content: bytes) -> None:
        self.method = method
        self.url = url
        self.headers = headers
        self.content = content
        self.path_params: dict[str, str] = {}
        parts = urlsplit(url)
        self.scheme: str = parts.scheme
        self.host: str = parts.hostname or ""
        self.port: int = parts.port or (443 if parts.scheme == "https" else 80)
        self.path: str = parts.path
        self.query: str = parts.query

    @property
    def params(self) -> dict[str, list[str]]:
        """The parameters of the query, with all values of each name."""
        return parse_qs(self.query, keep_blank_values=True)

    @property
    def form(self) -> dict[str, list[str]]:
        """The fields of a form, urlencoded or multipart, with all values of each name; empty if the body is none."""
        return self._form.fields

    @property
    def files(self) -> dict[str, list[MockFile]]:
        """The files of a multipart form, with all of each name; empty if the body is none."""
        return self._form.files

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies."""
        pairs = (cookie.partition("=") for line in self.headers.get_list("cookie") for cookie in line.split(";"))
        return {name.strip(): value.strip() for name, equals, value in pairs if equals}

    @property
    def text(self) -> str:
        """The body, as UTF-8."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:  # noqa: ANN401 - whatever is in it
        """Returns the value of a body in JSON.

        Raises:
            ValueError: The body isn't JSON.
        """
        return json.loads(self.content)

    @cached_property
    def _form(self) -> Form:
        return form_of(self.headers.get("content-type", ""), self.content)

    def __repr__(self) -> str:
        return f"<headgate.testing.MockRequest {self.method} {self.url}>"


MAX_CALLS: Final = 1000
"""The bound of calls that are kept."""
MAX_KEPT_BYTES: Final = 64 * 1024 * 1024
"""The bound of the bytes of their bodies; the newest call is kept in any case."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request and its response.

    >>> with headgate.testing.mock() as server:
    ...     route = server.get("/users/1", json={"id": 1})
    ...     response = client.get("/users/1")
    >>> call = route.calls[0]
    >>> call.request.path, call.response
    ('/users/1', <headgate.testing.MockResponse 200, 8 bytes>)

    Attributes:
        request: The request.
        response: The response; `None` if the request failed, or was passed through to the network.
    """

    __module__ = "headgate.testing"

    request: MockRequest
    response: MockResponse | None


class Calls(Sequence[Call]):
    """The newest 1,000 calls, with up to 64 MiB of bodies. `total` counts all of them.

    >>> with headgate.testing.mock() as server:
    ...     route = server.get("/users/{number}")
    ...     statuses = [client.get(f"/users/{number}").status_code for number in range(3)]
    >>> len(route.calls), route.calls.total, [call.request.path_params["number"] for call in route.calls]
    (3, 3, ['0', '1', '2'])
    """

    __module__ = "headgate.testing"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: deque[Call] = deque()
        self._bytes = 0
        self._total = 0

    @property
    def total(self) -> int:
        """The number of all calls."""
        return self._total

    def add(self, call: Call) -> None:
        """Adds a call, and drops the oldest ones beyond the bounds."""
        with self._lock:
            self._total += 1
            self._calls.append(call)
            self._bytes += len(call.request.content)
            while len(self._calls) > MAX_CALLS or (self._bytes > MAX_KEPT_BYTES and len(self._calls) > 1):
                self._bytes -= len(self._calls.popleft().request.content)

    def clear(self) -> None:
        """Removes all calls, and resets `total`."""
        with self._lock:
            self._calls.clear()
            self._bytes = self._total = 0

    @overload
    def __getitem__(self, index: int) -> Call: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Call]: ...
    def __getitem__(self, index: int | slice) -> Call | Sequence[Call]:
        return self._copy()[index]

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(self._copy())

    def __repr__(self) -> str:
        return f"<{len(self)} calls>"

    def _copy(self) -> list[Call]:
        with self._lock:
            return list(self._calls)
