"""What the clients for threads and for event loops have in common."""

from typing import TYPE_CHECKING, Any, Final, NoReturn

from headgate._errors import UsageError
from headgate._foreign import no_attribute
from headgate._option import OptionSet
from headgate.client._client_options import base_url_of, options_of, params_of
from headgate.client._engine import Engine
from headgate.client._open_streams import OpenStreams

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headgate._summary import Snapshot
    from headgate.client._app import ServedApp
    from headgate.client._client_headers import ClientHeaders
    from headgate.client._cookie_jar import CookieSource
    from headgate.client._cookies import Cookies

APP_BASE_URL: Final = "http://testserver"
"""The `base_url` of a client of an application, unless it is given."""


class EngineClient:
    """The base of both clients: an engine and its statistics."""

    def __init__(
        self,
        base_url: object,
        params: object,
        options: OptionSet[Any],
        given: dict[str, Any],
        app: "ServedApp | None",
    ) -> None:
        self._base_url = base_url_of(base_url) or ("" if app is None else APP_BASE_URL)
        self._engine = Engine(options_of(options, given, self._base_url, params_of(params), app), "client")
        self._streams = OpenStreams(self._engine)
        if app is not None:
            app.max_startup_s = self._engine.options.total_timeout

    @property
    def headers(self) -> "ClientHeaders":
        """The headers of all requests, which can be changed. Assigning to it replaces those of `headers=`.

        >>> client.headers.update({"X-Trace": "7"})
        >>> client.headers["x-trace"], "user-agent" in client.headers
        ('7', True)
        """
        from headgate.client._client_headers import ClientHeaders  # noqa: PLC0415 - most programs don't change them

        return ClientHeaders(self._engine)

    @headers.setter
    def headers(self, headers: "Mapping[str, str] | Iterable[tuple[str, str]]") -> None:
        from headgate.client._client_headers import ClientHeaders  # noqa: PLC0415 - as above

        ClientHeaders(self._engine).replace(headers)

    @property
    def base_url(self) -> str:
        """The URL to which relative URLs are relative; empty if there is none.

        >>> client.base_url
        'http://127.0.0.1:8080'
        """
        return self._base_url

    @property
    def is_closed(self) -> bool:
        """Whether the client is closed: it makes no more requests."""
        return self._engine.is_closed

    @property
    def cookies(self) -> "Cookies":
        """The cookies that the client keeps. They can be read and changed at any time, also after `close`.

        Assigning to it replaces all of them.

        >>> with headgate.Client(base_url="http://127.0.0.1:8080", cookies={"seen": "1"}) as keeping:
        ...     keeping.cookies["session"] = "7"
        ...     print(dict(keeping.cookies))
        {'seen': '1', 'session': '7'}

        Raises:
            UsageError: The client keeps no cookies.
        """
        cookies: Cookies | None = self._engine.options.cookies
        if cookies is None:
            raise UsageError(
                f"this client keeps no cookies: create it with headgate.{type(self).__name__}(cookies=True)"
            )
        return cookies

    @cookies.setter
    def cookies(self, cookies: "CookieSource") -> None:
        from headgate.client._cookies import copied  # noqa: PLC0415 - most programs don't change them

        kept, others = self.cookies, copied(cookies, self._base_url)
        kept.clear()
        kept.update(others)

    def statistics(self) -> "Snapshot":
        """Returns the statistics of the client: the snapshot that the command line shows of a job.

        It counts all requests of the client. A row is a request here.

        >>> client.statistics().in_flight
        0
        """
        return self._engine.statistics()

    if not TYPE_CHECKING:  # type checkers would accept every name

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name)

    def __repr__(self) -> str:
        return self._engine.described(type(self).__name__, self._base_url)

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        return self._engine.table_of_statistics(repr(self))

    def __getstate__(self) -> NoReturn:
        raise TypeError("a client can't be pickled: make one where it is used")
