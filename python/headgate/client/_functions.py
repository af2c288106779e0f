"""Functions that make one request each, with a client of their own: for scripts."""

import re
from typing import Any, Final, Unpack

from headgate._foreign import translated, unexpected
from headgate.client._auth import AuthFunction
from headgate.client._client import Client
from headgate.client._client_options import CLIENT, ClientArguments
from headgate.client._request import OF_CALL, RequestKeywords, request_of
from headgate.client._response import Response
from headgate.client._url import UrlLike, text_of
from headgate.jobs._auth import Auth, is_token_source


class FunctionKeywords(ClientArguments, RequestKeywords, total=False):  # type: ignore[misc] # both have headers
    """The options of a client, and the arguments of a request, which replace those of the same name."""

    auth: Auth | AuthFunction | None  # type: ignore[misc] # as above


_KNOWN: Final = (*OF_CALL, *(name for name in CLIENT.entries if name not in OF_CALL))
_CREDENTIALS: Final = {"auth", "bearer", "user", "token_command", "cert"}
_ORIGIN: Final = re.compile(r"https?://[^/?#\\@*\s]+(?=[/?#]|$)", re.IGNORECASE)


def request(method: str, url: UrlLike, **options: Unpack[FunctionKeywords]) -> Response:
    """Sends one request, with a client of its own, and waits for its response.

    For more than a few requests use `headgate.Client`, which keeps connections open and applies its limits to all of
    them. Credentials (`auth`, `bearer`, `user`, `cert`) are sent to the origin of the URL only, unless
    `credentials_for` names others.

    >>> headgate.request("GET", "http://127.0.0.1:8080/redirect/1", timeout=5, redirects="none").status_code
    302

    Args:
        method: The method, such as `GET`.
        url: The URL. The other arguments are those of `Client.request`, and the options of `headgate.Client`.

    Raises:
        RequestError: The request failed, or one of its arguments has an invalid value.
        UsageError: An option of the client has an invalid value.
        TypeError: There is no such option; the message has the one that is probably meant.
    """
    return _send(method, url, options, "request")


def get(url: UrlLike, **options: Unpack[FunctionKeywords]) -> Response:
    """Sends a GET request. See `headgate.request`.

    >>> headgate.get("http://127.0.0.1:8080/hello", retries=0).text
    'Hello, World!'
    """
    return _send("GET", url, options, "get")


def head(url: UrlLike, **options: Unpack[FunctionKeywords]) -> Response:
    """Sends a HEAD request. See `headgate.request`.

    >>> headgate.head("http://127.0.0.1:8080/hello").headers["content-length"]
    '13'
    """
    return _send("HEAD", url, options, "head")


def options(url: UrlLike, **options: Unpack[FunctionKeywords]) -> Response:
    """Sends an OPTIONS request. See `headgate.request`.

    >>> headgate.options("http://127.0.0.1:8080/echo").json()["method"]
    'OPTIONS'
    """
    return _send("OPTIONS", url, options, "options")


def post(url: UrlLike, **options: Unpack[FunctionKeywords]) -> Response:
    """Sends a POST request. See `headgate.request`.

    >>> headgate.post("http://127.0.0.1:8080/echo", json={"a": 1}).json()["body"]
    '{"a":1}'
    """
    return _send("POST", url, options, "post")


def put(url: UrlLike, **options: Unpack[FunctionKeywords]) -> Response:
    """Sends a PUT request. See `headgate.request`.

    >>> headgate.put("http://127.0.0.1:8080/echo", content="all of it").json()["body"]
    'all of it'
    """
    return _send("PUT", url, options, "put")


def patch(url: UrlLike, **options: Unpack[FunctionKeywords]) -> Response:
    """Sends a PATCH request. See `headgate.request`.

    >>> headgate.patch("http://127.0.0.1:8080/echo", data={"name": "Ann"}).json()["body"]
    'name=Ann'
    """
    return _send("PATCH", url, options, "patch")


def delete(url: UrlLike, **options: Unpack[FunctionKeywords]) -> Response:
    """Sends a DELETE request. See `headgate.request`.

    >>> headgate.delete("http://127.0.0.1:8080/echo").json()["method"]
    'DELETE'
    """
    return _send("DELETE", url, options, "delete")


def _send(method: str, url: UrlLike, given: FunctionKeywords, of: str) -> Response:
    of_call: dict[str, Any] = {}
    of_client: dict[str, Any] = {"concurrency": 1, "threads": 1}
    for name, value in translated(given, _KNOWN, of).items():
        if name not in _KNOWN:
            raise unexpected(of, name, _KNOWN)
        is_of_call = name in OF_CALL and not (name == "auth" and is_token_source(value))
        (of_call if is_of_call else of_client)[name] = value
    if of_client.keys() & _CREDENTIALS and (origin := _ORIGIN.match(text_of(url) or "")):
        of_client.setdefault("credentials_for", origin[0])
    with Client(**of_client) as client:
        return client.send(request_of(method, url, of_call, of))
