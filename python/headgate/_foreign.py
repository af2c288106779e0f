"""Keyword arguments of other libraries, such as httpx, with the ones that headgate has instead, for messages.

It does not contain names that have the same meaning here: those are accepted.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final

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
