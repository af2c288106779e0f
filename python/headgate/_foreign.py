"""Names of other libraries, such as httpx, with the ones that headgate has instead.

Messages name ours. A keyword argument whose value has the same meaning as one of ours is accepted: `translated`.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from functools import wraps
from typing import Any, Final, Literal, TypedDict, TypeVar, cast

from headgate._nearest import nearest

F = TypeVar("F", bound=Callable[..., Any])

_ATTEMPTS: Final = "attempts=3, the first one included"
_BACKOFF: Final = "backoff=0.1, in seconds, or a function of the attempt and its error"
_BODY: Final = "content of each request"
_CONCURRENCY: Final = "concurrency=256"
_COOKIES: Final = "headers={'Cookie': 'name=value'}; redirect_cookies=True sends those that a redirect sets"
_COOKIE_JAR: Final = "cookies=True, which keeps the cookies that servers set"
_ERRORS_RETRIED: Final = "on=(ConnectionError, TimeoutError)"
_LIMIT: Final = "limit=100"
_LIMITS: Final = "concurrency=256 and concurrency_per_host=8"
_MOCK: Final = "headgate.testing.mock, which responds in tests"
_RATES: Final = {"per_key": "rate=headgate.Rate(100)", "burst": "rate='100/s' or rate_per_host='10/s'"}
_REDIRECTS: Final = "redirects='follow' or redirects='none'"
_RETRIES: Final = {
    "retry": "retry=headgate.Retry(4), which makes 4 attempts, the first one included",
    "retries": "retries=3, in addition to the first attempt",
}
_TRIES: Final = {
    "retry": "retry=headgate.Retry(3), which makes 3 attempts, the first one included",
    "retries": "retries=2, in addition to the first attempt",
}
_USER: Final = "user='name:password' or bearer='token'"
_VERIFY: Final = "insecure=True in place of verify=False, and cacert='ca.pem' in place of a path or a context"

OTHER_TIMEOUTS: Final = "there are connect_timeout, first_byte_timeout, idle_timeout, pool_timeout and total_timeout"
"""For a value that has several timeouts."""

MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "allow_redirects": {"redirects": _REDIRECTS},
    "app": {"concurrency": "headgate.Client(app=app), for an ASGI application"},
    "attempts": _TRIES,
    "auth": {"user": _USER},
    "auto_decompress": {"decode": "decode=False"},
    "backoff_factor": {"retry_delay": "retry_delay=0.5, in seconds"},
    "base_url": {"url_column": "url='https://api.example.com/{id}', a template for each row"},
    "body": {"content": "content", "data": "data"},
    "compress": {"compress_body": "compress_body='gzip'"},
    "concurrency": {"limit": _LIMIT},
    "connector": {"concurrency": _LIMITS},
    "content": {"data": "data", "concurrency": _BODY},
    "cookie_jar": {"cookies": _COOKIE_JAR, "headers": _COOKIES},
    "cookies": {"headers": _COOKIES},
    "default_encoding": {"concurrency": "response.encoding = 'latin-1', before response.text is read"},
    "delay": {"backoff": _BACKOFF},
    "exceptions": {"on": _ERRORS_RETRIED},
    "extensions": {"headers": "an option of the client, such as tls_server_name or connect_timeout"},
    "files": {"form": "form=['name=@path']", "concurrency": "files of each request"},
    "follow_redirects": {"redirects": _REDIRECTS},
    "http1": {"http1_1": "http1_1=True for HTTP/1.1 only"},
    "http2": {"http1_1": "http1_1=True for HTTP/1.1 only: HTTP/2 is used with each server that offers it"},
    "limit": {"concurrency": _CONCURRENCY},
    "limit_per_host": {"concurrency_per_host": "concurrency_per_host=8"},
    "limits": {"concurrency": _LIMITS},
    "local_addr": {"local_address": "local_address='192.0.2.1'"},
    "max_connections": {"concurrency": _CONCURRENCY},
    "max_attempts": {"attempts": _ATTEMPTS, **_TRIES},
    "max_concurrency": {"limit": _LIMIT, "concurrency": _CONCURRENCY},
    "max_concurrent": {"limit": _LIMIT, "concurrency": _CONCURRENCY},
    "max_keepalive_connections": {"max_idle_connections": "max_idle_connections=100"},
    "max_retries": _RETRIES,
    "max_tries": {"attempts": _ATTEMPTS, **_TRIES},
    "max_wait": {"max_backoff": "max_backoff=60"},
    "max_workers": {"limit": _LIMIT, "concurrency": _CONCURRENCY},
    "mounts": {"concurrency": f"{_MOCK}; app=app for an ASGI application"},
    "params": {"url_column": "url='https://host/?q={q}', a template for each row"},
    "per_host": {"concurrency_per_host": "concurrency_per_host=8 or rate_per_host='10/s'"},
    "pool_connections": {"concurrency": _CONCURRENCY},
    "pool_maxsize": {"concurrency": _CONCURRENCY},
    "proxies": {"proxy": "proxy='http://proxy.example:8080'"},
    "proxy_auth": {"proxy": "proxy='http://name:password@proxy.example:8080'"},
    "raise_for_status": {
        "url_column": "fail_on='4xx,5xx', with which such rows fail",
        "headers": "response.raise_for_status()",
    },
    "rate_limit": _RATES,
    "requests_per_second": _RATES,
    "retries": _RETRIES,
    "retry": {"retries": _RETRIES["retries"], "on": _ERRORS_RETRIED},
    "return_exceptions": {
        "ordered": "errors='yield', which yields a headgate.TaskOutcome for each item",
        "errors": "errors='skip', which only counts them",
    },
    "semaphore": {
        "per_key": "limit=100, or a headgate.ConcurrencyLimit(100) that several calls share",
        "limit": _LIMIT,
        "concurrency": _CONCURRENCY,
    },
    "server_hostname": {"tls_server_name": "tls_server_name='host.example'"},
    "sock_connect": {"connect_timeout": "connect_timeout=10"},
    "sock_read": {"idle_timeout": "idle_timeout=10"},
    "source_address": {"local_address": "local_address='192.0.2.1'"},
    "ssl": {"insecure": _VERIFY},
    "ssl_context": {"insecure": _VERIFY},
    "status_forcelist": {"retry_on": "retry_on='429,503'"},
    "stop": {"attempts": _ATTEMPTS},
    "stream": {"content": "client.stream(method, url), as a context manager"},
    "transport": {"concurrency": f"{_MOCK}; app=app for an ASGI application"},
    "tries": {"attempts": _ATTEMPTS, **_TRIES},
    "trust_env": {"proxy": "proxy='env', which is not the default"},
    "verify": {"insecure": _VERIFY},
    "verify_ssl": {"insecure": _VERIFY},
    "wait": {"backoff": _BACKOFF},
}
"""What to write, by the foreign name and by an option that the function must have for it; the first one counts."""

_NO_DIGEST: Final = "there is only Basic authentication: auth=('name', 'password')"
_HOOKS: Final = "here it is hooks={'request': function, 'attempt': ..., 'response': ..., 'error': ...}"

UNSUPPORTED: Final[Mapping[str, str]] = {
    "DigestAuth": _NO_DIGEST,
    "HTTPDigestAuth": _NO_DIGEST,
    "event_hooks": _HOOKS,
    "keepalive_expiry": "how long idle connections are kept can't be set; max_idle_connections bounds their number",
    "trace_configs": _HOOKS,
}
"""What to do instead, by the foreign name of something that headgate does not have: an argument or a class."""

_CONNECTION_ERRORS: Final = (
    "headgate.ConnectError, or headgate.ConnectionClosed after it was made; both are a builtin ConnectionError"
)
_OPTIONS: Final = "concurrency=256 and concurrency_per_host=8, options of the client"
_AUTH: Final = "auth=('name', 'password'), a function that changes the request, or an object with token()"
_BASIC_AUTH: Final = "auth=('name', 'password'), of a client or of a call"
_TRANSPORT: Final = (
    "headgate.Client itself, with options such as retries, proxy, local_address and http1_1; in tests,"
    " headgate.testing.mock"
)
_APP: Final = "headgate.AsyncClient(app=app) or headgate.Client(app=app); headgate.AsgiApp has more settings"
_NOT_READ: Final = "a builtin RuntimeError, which reading a body at the wrong time raises"
_STATUS: Final = "headgate.StatusError, which raise_for_status() raises"

ATTRIBUTES: Final[Mapping[str, str]] = {
    "ASGITransport": _APP,
    "AsyncHTTPTransport": _TRANSPORT,
    "AsyncBaseTransport": _TRANSPORT,
    "AsyncByteStream": "an async iterator of bytes",
    "AsyncLimiter": "headgate.Rate",
    "Auth": _AUTH,
    "BasicAuth": _BASIC_AUTH,
    "BaseTransport": _TRANSPORT,
    "BoundedSemaphore": "headgate.ConcurrencyLimit",
    "ByteStream": "bytes, or an iterator of them",
    "ChunkedEncodingError": "headgate.ConnectionClosed",
    "ClientConnectionError": _CONNECTION_ERRORS,
    "ClientConnectorError": "headgate.ConnectError",
    "ClientError": "headgate.RequestError",
    "ClientPayloadError": "headgate.ConnectionClosed",
    "ClientResponseError": _STATUS,
    "ClientSession": "headgate.AsyncClient",
    "CloseError": "headgate.ConnectionClosed",
    "ClientTimeout": f"timeout=30 for each attempt; {OTHER_TIMEOUTS}",
    "ConnectionError": _CONNECTION_ERRORS,
    "ContentDecodingError": "headgate.DecodeError",
    "DecodingError": "headgate.DecodeError",
    "CookieJar": "cookies=True of the client, and headgate.Cookies",
    "FunctionAuth": "auth=function, of a client or of a call",
    "HTTPAdapter": _TRANSPORT,
    "HTTPBasicAuth": _BASIC_AUTH,
    "HTTPError": "headgate.RequestError, the base of all errors of a request; raise_for_status() raises StatusError",
    "HTTPStatusError": _STATUS,
    "HTTPTransport": _TRANSPORT,
    "InvalidSchema": "headgate.InvalidRequest",
    "InvalidURL": "headgate.InvalidRequest",
    "Limits": _OPTIONS,
    "LocalProtocolError": "headgate.InvalidRequest",
    "MissingSchema": "headgate.InvalidRequest",
    "MockTransport": _MOCK,
    "NetRCAuth": "auth=('name', 'password'), which netrc.netrc().authenticators(host) finds; .netrc is not read",
    "NetworkError": _CONNECTION_ERRORS,
    "Proxy": "proxy='http://name:password@proxy.example:8080'",
    "QueryParams": "a mapping, or pairs of names and values",
    "RateLimiter": "headgate.Rate",
    "ReadError": "headgate.ConnectionClosed",
    "RemoteProtocolError": "headgate.ConnectionClosed, or headgate.ProtocolError for what is not HTTP",
    "RequestException": "headgate.RequestError",
    "RequestNotRead": _NOT_READ,
    "ResponseNotRead": _NOT_READ,
    "SSLError": "headgate.TlsError",
    "Semaphore": "headgate.ConcurrencyLimit",
    "ServerDisconnectedError": "headgate.ConnectionClosed",
    "Session": "headgate.Client",
    "StreamClosed": _NOT_READ,
    "StreamConsumed": _NOT_READ,
    "StreamError": _NOT_READ,
    "SyncByteStream": "an iterator of bytes",
    "TCPConnector": _OPTIONS,
    "TestClient": _APP,
    "Timeout": f"timeout=30 for each attempt; {OTHER_TIMEOUTS}; the error is headgate.RequestTimeout",
    "TimeoutError": "headgate.RequestTimeout, which is a builtin TimeoutError",
    "TimeoutException": "headgate.RequestTimeout, the base of ConnectTimeout, ReadTimeout and TotalTimeout",
    "TransportError": "headgate.RequestError, which headgate.StatusError is, too",
    "URL": "a str: URLs are text",
    "USE_CLIENT_DEFAULT": "'client', or no argument",
    "UnsupportedProtocol": "headgate.InvalidRequest",
    "WSGITransport": _MOCK,
    "WriteError": "headgate.ConnectionClosed",
    "WriteTimeout": "headgate.ReadTimeout",
    "codes": "http.HTTPStatus",
    "create_ssl_context": _VERIFY,
    "session": "headgate.Client",
    "stream": "client.stream(method, url), as a context manager",
}
"""What to write, by a name of another library that the module `headgate` does not have."""

_AT_CREATION: Final = "an option of the client, which is given when it is created and can't be read"
_STREAM: Final = "of client.stream(method, url)"

MEMBERS: Final[Mapping[str, Mapping[str, str]]] = {
    "AsyncClient": {"close": "aclose()"},
    "AsyncStreamedResponse": {
        "close": "aclose()",
        "iter_bytes": "aiter_bytes()",
        "iter_content": "aiter_bytes()",
        "iter_lines": "aiter_lines()",
        "iter_raw": "aiter_raw()",
        "iter_text": "aiter_text()",
        "read": "aread()",
    },
    "Client": {"aclose": "close()"},
    "EngineClient": {
        **dict.fromkeys(("auth", "params", "proxies", "timeout", "trust_env", "verify"), _AT_CREATION),
        **dict.fromkeys(("follow_redirects", "max_redirects"), _AT_CREATION),
        "mount": "options of the client, such as retries and proxy; in tests, headgate.testing.mock",
    },
    "RequestError": {
        "response": "an attribute of headgate.StatusError alone",
    },
    "Response": {
        "aclose": f"aclose() {_STREAM}",
        "aiter_bytes": f"aiter_bytes() {_STREAM}",
        "aiter_lines": f"aiter_lines() {_STREAM}",
        "aiter_raw": f"aiter_raw() {_STREAM}",
        "aiter_text": f"aiter_text() {_STREAM}",
        "apparent_encoding": "encoding",
        "aread": "content",
        "body": "content",
        "charset": "encoding",
        "close": f"close() {_STREAM}",
        "default_encoding": "encoding, which can be set",
        "extensions": "http_version and remote_addr",
        "has_redirect_location": "is_redirect",
        "is_closed": f"is_closed {_STREAM}",
        "is_stream_consumed": f"is_stream_consumed {_STREAM}",
        "iter_bytes": f"iter_bytes() {_STREAM}",
        "iter_content": f"iter_bytes() {_STREAM}",
        "iter_lines": f"iter_lines() {_STREAM}",
        "iter_raw": f"iter_raw() {_STREAM}",
        "iter_text": f"iter_text() {_STREAM}",
        "next_request": "headers['location'], relative to url; redirects='follow' follows it",
        "num_bytes_downloaded": f"num_bytes_downloaded {_STREAM}",
        "ok": "is_success",
        "raw": f"iter_raw() {_STREAM}",
        "read": "content",
        "real_url": "url",
        "reason": "reason_phrase",
        "status": "status_code",
        "stream": f"iter_bytes() {_STREAM}",
    },
    "StatusError": {"status": "response.status_code"},
    "StreamedResponse": {
        "aclose": "close()",
        "aiter_bytes": "iter_bytes()",
        "aiter_lines": "iter_lines()",
        "aiter_raw": "iter_raw()",
        "aiter_text": "iter_text()",
        "aread": "read()",
        "iter_content": "iter_bytes()",
    },
}
"""What to write, by a class and by an attribute that objects of other libraries have and these do not."""


class RedirectKeywords(TypedDict, total=False):
    """Arguments of other libraries that mean `redirects="follow"` if they are true, and `redirects="none"` if not."""

    follow_redirects: bool
    allow_redirects: bool


class SameMeaning(RedirectKeywords, total=False):
    """Arguments of other libraries that clients accept, because their values have the same meaning here."""

    verify: Literal[True]
    http2: Literal[True]


def attribute_hint(name: str) -> str:
    """Returns the end of a message about an unknown name of the module: what is meant, if that is clear."""
    return _hint_in(ATTRIBUTES, name)


def no_attribute(owner: object, name: str) -> AttributeError:
    """Returns the error for an attribute that an object does not have; the message has ours, if that is clear."""
    kind = type(owner)
    meant = next(filter(None, (_hint_in(MEMBERS.get(base.__name__, {}), name) for base in kind.__mro__)), "")
    return AttributeError(f"{kind.__name__!r} object has no attribute {name!r}{meant}", name=name, obj=owner)


def unexpected(of: str, name: str, known: Iterable[str], client: Container[str] = ()) -> TypeError:
    """Returns the error for a keyword argument that a function does not have; the arguments are those of `hint`."""
    return TypeError(f"{of}() got an unexpected keyword argument {name!r}{hint(name, known, client)}")


def explained(of: str, client: Callable[[], Container[str]] = tuple) -> Callable[[F], F]:
    """Returns a decorator for a method without `**options`: unknown keyword arguments raise the error of `unexpected`.

    Args:
        of: The function, as messages name it.
        client: Returns the options of its client, if it is a method of one.
    """

    def decorate(function: F) -> F:
        code = function.__code__
        known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]

        @wraps(function)
        def checked(*args: Any, **given: Any) -> Any:  # noqa: ANN401 - those of any method
            for name in given:
                if name not in known:
                    raise unexpected(of, name, known, client())
            return function(*args, **given)

        return cast("F", checked)

    return decorate


def _hint_in(meanings: Mapping[str, str], name: str) -> str:
    if name in UNSUPPORTED:
        return f": {UNSUPPORTED[name]}"
    return f": here it is {meanings[name]}" if name in meanings else ""


def translated(given: Mapping[str, Any], known: Container[str], of: str) -> dict[str, Any]:
    """Returns the keyword arguments of a function, with those of other libraries replaced by ours.

    Args:
        given: The arguments.
        known: The options of the function.
        of: The function, as messages name it.

    Raises:
        TypeError: A replaced argument has a value that means nothing here, or ours is given, too.
    """
    options = dict(given)
    if "redirects" in known:
        _translate_redirects(options, of)
    if "insecure" in known:
        _drop_default(options, "verify", "insecure", _VERIFY, of)
    if "http1_1" in known:
        _drop_default(options, "http2", "http1_1", "http1_1=True for HTTP/1.1 only", of)
    return options


def _translate_redirects(options: dict[str, Any], of: str) -> None:
    names = [name for name in ("redirects", "follow_redirects", "allow_redirects") if name in options]
    if len(names) > 1:
        raise TypeError(f"{of}() got {' and '.join(names)}: give one of them")
    if names and names[0] != "redirects":
        value = options.pop(names[0])
        if not isinstance(value, bool):
            raise TypeError(f"{names[0]} must be True or False, not {value!r}: here it is {_REDIRECTS}")
        options["redirects"] = "follow" if value else "none"


def _drop_default(options: dict[str, Any], name: str, opposite: str, meant: str, of: str) -> None:
    """Removes an argument that may only be true, as it is by default; `opposite` is our option that turns it off."""
    if name in options:
        if options.pop(name) is not True:
            raise TypeError(f"{of}() takes {name}=True only: here it is {meant}")
        if options.get(opposite):
            raise TypeError(f"{of}() got {name}=True and {opposite}=True: give one of them")


def hint(name: str, known: Iterable[str], client: Container[str] = ()) -> str:
    """Returns the end of a message about an unknown keyword argument: what is meant, if that is clear.

    Args:
        name: The unknown name.
        known: The options of the function.
        client: The options of its client, if it is a method of one.
    """
    known = tuple(known)
    if name in UNSUPPORTED:
        return f": {UNSUPPORTED[name]}"
    meanings = MEANINGS.get(name, {})
    for option, text in meanings.items():
        if option in known:
            return f": here it is {text}"
    if name in client:
        return f": it is an option of the client, headgate.Client({name}=...)"
    for option, text in meanings.items():
        if option in client:
            return f": the client has {text}"
    meant = nearest(name, known)
    return f": did you mean {meant}?" if meant else ""
