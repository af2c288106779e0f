"""A request as it is sent."""

from collections.abc import MutableMapping
from typing import Any

from headgate._url_user import without_user


class PreparedRequest:
    """A request as it is sent, which `auth` functions change; of a response, the request that led to it.

    After redirects it is the last one: it may have another method and no body, and at another origin no credentials. It
    has the form of HTTP/1.1. What is added for a proxy is not part of it. If the client's token was renewed 8 times
    between sending and the first look at the request, it has the oldest token that is known.

    >>> request = client.get("/redirect-to?url=/echo", headers={"X-Trace": "7"}).request
    >>> request, request.method, request.url, request.content, request.tag
    (<PreparedRequest [GET] http://127.0.0.1:8080/echo>, 'GET', 'http://127.0.0.1:8080/echo', None, None)
    >>> request.headers["host"], request.headers["x-trace"], request.headers["accept"]
    ('127.0.0.1:8080', '7', '*/*')

    Attributes:
        method: The method.
        url: The absolute URL, with its parameters; of a request that was sent, without a user.
        headers: The headers, by their case-insensitive names: an `auth` function gets those of the call and the
            `Content-Type` of the body. A request that was sent has all, with the client's.
        content: The body; `None` if there is none, or if it is read while it is sent.
        tag: The `tag` of the `headgate.Request`.
        extensions: What hooks store for later hooks of the same call, which get it with its attempts and result.
    """

    __module__ = "headgate"

    __slots__ = ("content", "extensions", "headers", "method", "tag", "url")

    def __init__(
        self,
        method: str,
        url: str,
        headers: MutableMapping[str, str],
        content: bytes | None = None,
        tag: Any = None,  # noqa: ANN401 - the caller's
    ) -> None:
        self.method: str = method
        self.url: str = url
        self.headers: MutableMapping[str, str] = headers
        self.content: bytes | None = content
        self.tag: Any = tag
        self.extensions: dict[str, Any] = {}

    def __repr__(self) -> str:
        """Returns a description without what may be secret."""
        return f"<PreparedRequest [{self.method}] {without_user(self.url)}>"
