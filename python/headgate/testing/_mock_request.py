"""A request as a mock sees it."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from headgate.client._headers import Headers


class MockRequest:
    """A request that came to a mock.

    >>> with headgate.testing.mock() as server:
    ...     route = server.post("/users/{name}")
    ...     response = client.post("/users/ann", params={"page": 2}, json={"id": 1})
    >>> request = route.calls[0].request
    >>> request.method, request.url, request.path_params, request.params
    ('POST', 'http://127.0.0.1:8080/users/ann?page=2', {'name': 'ann'}, {'page': ['2']})
    >>> request.headers["content-type"], request.content, request.text, request.json()
    ('application/json', b'{"id":1}', '{"id":1}', {'id': 1})

    Attributes:
        method: The method.
        url: The whole URL, as it was sent.
        headers: The headers, by their names in whatever case.
        content: The body, as it was sent.
        path_params: What `{name}` in the pattern of its route, or a named group of a regular expression, stood for.
    """

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
        """The parameters of the query: all values of each name."""
        return parse_qs(self.query, keep_blank_values=True)

    @property
    def text(self) -> str:
        """The body, as UTF-8."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:  # noqa: ANN401 - whatever is in it
        """The body, as JSON.

        Raises:
            ValueError: It isn't JSON.
        """
        return json.loads(self.content)

    def __repr__(self) -> str:
        return f"<headgate.testing.MockRequest {self.method} {self.url}>"
