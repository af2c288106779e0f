"""Names of other libraries, such as httpx, with the ones that headgate has instead.

Messages name ours. A keyword argument whose value has the same meaning as one of ours is accepted: `translated`.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any, Final, Literal, TypedDict

from headgate._nearest import nearest

_BODY: Final = "content of each request"
_CONCURRENCY: Final = "concurrency=256"
_COOKIES: Final = (
    "headers={'Cookie': 'name=value'}; redirect_cookies=True of the client sends those that a redirect sets"
)
_HOOKS: Final = "a function of yours that is called with each response"
_LIMIT: Final = "limit=100"
_LIMITS: Final = "concurrency=256 and concurrency_per_host=8"
_MOCK: Final = "headgate.testing.mock, which responds in tests"
_REDIRECTS: Final = "redirects='follow' or redirects='none'"
_VERIFY: Final = "insecure=True in place of verify=False, and cacert='ca.pem' in place of a path or a context"

OTHER_TIMEOUTS: Final = "the client has connect_timeout, first_byte_timeout, idle_timeout and total_timeout"
"""For a value that has several timeouts."""

MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "allow_redirects": {"redirects": _REDIRECTS},
    "app": {"concurrency": _MOCK},
    "auth": {"user": "user='name:password' or bearer='token'"},
    "auto_decompress": {"decode": "decode=False"},
    "backoff_factor": {"retry_delay": "retry_delay=0.5, in seconds"},
    "base_url": {"url_column": "url='https://api.example.com/{id}', a template for each row"},
    "body": {"content": "content", "data": "data"},
    "compress": {"compress_body": "compress_body='gzip'"},
    "concurrency": {"limit": _LIMIT},
    "connector": {"concurrency": _LIMITS},
    "content": {"data": "data", "concurrency": _BODY},
    "cookie_jar": {"headers": _COOKIES},
    "cookies": {"headers": _COOKIES},
    "default_encoding": {"concurrency": "response.encoding = 'latin-1', before response.text is read"},
    "event_hooks": {"headers": _HOOKS},
    "extensions": {"headers": "an option of the client, such as tls_server_name or connect_timeout"},
    "files": {"form": "form=['name=@path']", "concurrency": "files of each request"},
    "follow_redirects": {"redirects": _REDIRECTS},
    "hooks": {"headers": _HOOKS},
    "http1": {"http1_1": "http1_1=True for HTTP/1.1 only"},
    "http2": {"http1_1": "http1_1=True for HTTP/1.1 only: HTTP/2 is used with each server that offers it"},
    "limit": {"concurrency": _CONCURRENCY},
    "limit_per_host": {"concurrency_per_host": "concurrency_per_host=8"},
    "limits": {"concurrency": _LIMITS},
    "local_addr": {"local_address": "local_address='192.0.2.1'"},
    "max_connections": {"concurrency": _CONCURRENCY},
    "max_concurrent": {"limit": _LIMIT, "concurrency": _CONCURRENCY},
    "max_keepalive_connections": {"max_idle_connections": "max_idle_connections=100"},
    "max_retries": {"retries": "retries=3"},
    "max_workers": {"limit": _LIMIT, "concurrency": _CONCURRENCY},
    "mounts": {"concurrency": _MOCK},
    "params": {
        "url_column": "url='https://host/?q={q}', a template for each row",
        "concurrency": "params of each request",
    },
    "per_host": {"concurrency_per_host": "concurrency_per_host=8 or rate_per_host='10/s'"},
    "pool_connections": {"concurrency": _CONCURRENCY},
    "pool_maxsize": {"concurrency": _CONCURRENCY},
    "proxies": {"proxy": "proxy='http://proxy.example:8080'"},
    "proxy_auth": {"proxy": "proxy='http://name:password@proxy.example:8080'"},
    "raise_for_status": {
        "url_column": "fail_on='4xx,5xx', with which such rows fail",
        "headers": "response.raise_for_status()",
    },
    "server_hostname": {"tls_server_name": "tls_server_name='host.example'"},
    "sock_connect": {"connect_timeout": "connect_timeout=10"},
    "sock_read": {"idle_timeout": "idle_timeout=10"},
    "source_address": {"local_address": "local_address='192.0.2.1'"},
    "ssl": {"insecure": _VERIFY},
    "ssl_context": {"insecure": _VERIFY},
    "status_forcelist": {"retry_on": "retry_on='429,503'"},
    "stream": {"content": "client.stream(method, url), as a context manager"},
    "trace_configs": {"headers": _HOOKS},
    "transport": {"concurrency": _MOCK},
    "trust_env": {"proxy": "proxy='env', which is not the default"},
    "verify": {"insecure": _VERIFY},
    "verify_ssl": {"insecure": _VERIFY},
}
"""What to write, by the foreign name and by an option that the function must have for it; the first one counts."""

_CONNECTION_ERRORS: Final = (
    "headgate.ConnectError, or headgate.ConnectionClosed after it was made; both are a builtin ConnectionError"
)
_OPTIONS: Final = "concurrency=256 and concurrency_per_host=8, options of the client"
_STATUS: Final = "headgate.StatusError, which raise_for_status() raises"

ATTRIBUTES: Final[Mapping[str, str]] = {
    "AsyncLimiter": "headgate.Rate",
    "BoundedSemaphore": "headgate.ConcurrencyLimit",
    "ChunkedEncodingError": "headgate.ConnectionClosed",
    "ClientConnectionError": _CONNECTION_ERRORS,
    "ClientConnectorError": "headgate.ConnectError",
    "ClientError": "headgate.RequestError",
    "ClientPayloadError": "headgate.ConnectionClosed",
    "ClientResponseError": _STATUS,
    "ClientSession": "headgate.AsyncClient",
    "ClientTimeout": f"timeout=30 for each attempt; {OTHER_TIMEOUTS}",
    "ConnectionError": _CONNECTION_ERRORS,
    "ContentDecodingError": "headgate.DecodeError",
    "DecodingError": "headgate.DecodeError",
    "HTTPError": "headgate.RequestError, the base of all errors of a request; raise_for_status() raises StatusError",
    "HTTPStatusError": _STATUS,
    "InvalidSchema": "headgate.InvalidRequest",
    "InvalidURL": "headgate.InvalidRequest",
    "Limits": _OPTIONS,
    "MissingSchema": "headgate.InvalidRequest",
    "MockTransport": _MOCK,
    "NetworkError": _CONNECTION_ERRORS,
    "RateLimiter": "headgate.Rate",
    "ReadError": "headgate.ConnectionClosed",
    "RemoteProtocolError": "headgate.ConnectionClosed, or headgate.ProtocolError for what is not HTTP",
    "RequestException": "headgate.RequestError",
    "SSLError": "headgate.TlsError",
    "Semaphore": "headgate.ConcurrencyLimit",
    "ServerDisconnectedError": "headgate.ConnectionClosed",
    "Session": "headgate.Client",
    "TCPConnector": _OPTIONS,
    "Timeout": f"timeout=30 for each attempt; {OTHER_TIMEOUTS}; the error is headgate.RequestTimeout",
    "TimeoutError": "headgate.RequestTimeout, which is a builtin TimeoutError",
    "TimeoutException": "headgate.RequestTimeout, the base of ConnectTimeout, ReadTimeout and TotalTimeout",
    "TransportError": "headgate.RequestError",
    "UnsupportedProtocol": "headgate.InvalidRequest",
    "WriteError": "headgate.ConnectionClosed",
    "WriteTimeout": "headgate.ReadTimeout",
    "session": "headgate.Client",
    "stream": "client.stream(method, url), as a context manager",
}
"""What to write, by a name of another library that the module `headgate` does not have."""


class RedirectKeywords(TypedDict, total=False):
    """Arguments of other libraries that mean `redirects="follow"` if they are true, and `redirects="none"` if not."""

    follow_redirects: bool
    allow_redirects: bool


class SameMeaning(RedirectKeywords, total=False):
    """Arguments of other libraries that clients accept, because their values have the same meaning here."""

    verify: Literal[True]


def attribute_hint(name: str) -> str:
    """Returns the end of a message about an unknown name of the module: what is meant, if that is clear."""
    return f": here it is {ATTRIBUTES[name]}" if name in ATTRIBUTES else ""


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
    names = [name for name in ("redirects", "follow_redirects", "allow_redirects") if name in options]
    if names and "redirects" in known:
        if len(names) > 1:
            raise TypeError(f"{of}() got {' and '.join(names)}: give one of them")
        if names[0] != "redirects":
            value = options.pop(names[0])
            if not isinstance(value, bool):
                raise TypeError(f"{names[0]} must be True or False, not {value!r}: here it is {_REDIRECTS}")
            options["redirects"] = "follow" if value else "none"
    if "verify" in options and "insecure" in known:
        if options.pop("verify") is not True:
            raise TypeError(f"{of}() takes verify=True only: here it is {_VERIFY}")
        if options.get("insecure"):
            raise TypeError(f"{of}() got verify=True and insecure=True: give one of them")
    return options


def hint(name: str, known: Iterable[str], client: Container[str] = ()) -> str:
    """Returns the end of a message about an unknown keyword argument: what is meant, if that is clear.

    Args:
        name: The unknown name.
        known: The options of the function.
        client: The options of its client, if it is a method of one.
    """
    known = tuple(known)
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
