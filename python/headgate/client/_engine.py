"""The engine of a client: one in each process that uses it, and one for each active mock."""

import os
import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, NoReturn

from headgate import _mocks, _native
from headgate._url_user import without_user
from headgate.client._client_options import ClientOptions

if TYPE_CHECKING:
    from headgate._native import NativeOutcome
    from headgate._summary import Snapshot
    from headgate.client._app import ServedApp
    from headgate.client._request import Native, NativeRequest

_lock = threading.Lock()


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - a lock that a thread of the parent held would never be released
    _lock = threading.Lock()
    Engine.process += 1


os.register_at_fork(after_in_child=_after_fork)


class Engine:
    """Owns the native client. After a fork, the child creates its own, and does not touch the parent's.

    Attributes:
        process: The current process, as the number of forks that led to it: cheaper to read than the process ID.
    """

    process: ClassVar[int] = 0

    def __init__(self, options: ClientOptions, of: str) -> None:
        self.options = options
        self.of = of
        self._header_changes: dict[str, list[tuple[str, bytes | None]]] = {}
        self._first_headers: frozenset[str] = frozenset()
        self._process = self.process
        self._changes = -1
        self._unmocked: _native.Client | None = None
        self._mocked: tuple[object, _native.Client] | None = None
        self._native = self._refresh()
        self.is_closed: bool = False

    @property
    def native(self) -> _native.Client:
        """The native client.

        Raises:
            RuntimeError: The client is closed.
        """
        if self.is_closed:
            self.raise_closed()
        if self._changes != _mocks.changes:
            self._native = self._refresh()
        if (app := self.options.app) is not None:
            app.ensure_running()
        return self._native

    def request_for_app(self, request: "NativeRequest") -> AbstractContextManager["NativeRequest"]:
        """Returns a context manager of a request as the application of the client gets it, if the client has one."""
        app: ServedApp | None = self.options.app
        if app is None:
            return nullcontext(request)
        self._refresh()  # in a fork it starts over
        return app.called(request)

    def raise_of_app(self, outcome: "NativeOutcome") -> None:
        """Raises the exception that the application of the client raised in place of a response, if it did."""
        if self.options.app is not None:
            self.options.app.check(outcome)

    def call(self, request: "Native") -> "NativeOutcome | None":
        """Sends a request, and waits for its outcome; `None` if the client is closed.

        Raises:
            Exception: Whatever the application of the client raised in place of a response.
        """
        native = self.native
        app: ServedApp | None = self.options.app
        if app is None:
            return native.call(request)
        with app.called(request) as of_app:
            outcome = native.call(of_app)
        if outcome is not None:
            app.check(outcome)
        return outcome

    @property
    def changes(self) -> int:
        """A number that changes whenever `native` does."""
        return _mocks.changes

    def _refresh(self) -> _native.Client:
        """Returns the native client for this process and the active mock, and creates it if necessary."""
        with _lock:
            if self._process != self.process and self.options.app is not None:
                self.options.app.renew()
            changes, mock = _mocks.changes, self.options.mock
            if self._process != self.process:
                # These belong to the parent: dropping them leaks them, and does not close them.
                self._process, self._unmocked, self._mocked = self.process, None, None
            if mock is None:
                self._mocked = None
                native = self._unmocked = self._unmocked or self._create()
            else:
                if self._mocked is None or self._mocked[0] is not mock:
                    self._mocked = mock, self._create()
                native = self._mocked[1]
            # In this order: a thread that sees the new number also sees the new client.
            self._native = native
            self._changes = changes
            return native

    def _create(self) -> _native.Client:
        native = _native.Client(self.options)
        if self._header_changes:
            native.change_headers([*chain.from_iterable(self._header_changes.values())])
        return native

    def headers(self) -> list[tuple[str, str, bool]]:
        """Returns the headers of all requests: name, value, and whether it is a credential."""
        headers = (self._native if self.is_closed else self.native).headers()
        return headers if headers is not None else self.raise_closed()

    def change_headers(self, given: Iterable[tuple[str, bytes | None]]) -> None:
        """Changes headers of the requests that are made from now on: each name gets new values, or none.

        Raises:
            UsageError: A header can't be sent, is a credential without an origin, or is set by another option.
            RuntimeError: The client is closed.
        """
        native = self.native
        named: dict[str, list[tuple[str, bytes | None]]] = {}
        for name, value in given:
            named.setdefault(name.lower(), []).append((name, value))
        with _lock:
            if not self._header_changes:
                self._first_headers = frozenset(name.lower() for name, _, _ in native.headers() or ())
            # Names that came and went must not stay, because there may be any number of them.
            changes = {
                key: headers
                for key, headers in {**self._header_changes, **named}.items()
                if key in self._first_headers or any(value is not None for _, value in headers)
            }
            for each in {native, self._native, self._unmocked or native}:
                each.change_headers([*chain.from_iterable(changes.values())])
            self._header_changes = changes

    def check_is_open(self) -> None:
        """Raises the error of a closed client, if it is closed."""
        if self.is_closed:
            self.raise_closed()

    def raise_closed(self) -> NoReturn:
        """Raises the error of a closed client."""
        raise RuntimeError(f"the {self.of} is closed: it makes no more requests")

    def close(self) -> None:
        """Cancels what is in flight. Idempotent."""
        if not self.is_closed:
            self.is_closed = True
            self._native.close()
            if self._unmocked is not None:
                self._unmocked.close()

    def statistics(self) -> "Snapshot":
        """Returns the statistics of the client."""
        from headgate._summary import Snapshot  # noqa: PLC0415 - it takes 5 ms

        snapshot = (self._native if self.is_closed else self.native).snapshot()
        return Snapshot.from_json(snapshot) if snapshot is not None else self.raise_closed()

    def described(self, name: str, base_url: str) -> str:
        """Returns the `repr` of a client of that name."""
        of = f" of {without_user(base_url)}" if base_url else ""
        return f"<headgate.{name}{of}{' (closed)' if self.is_closed else ''}>"

    def table_of_statistics(self, title: str) -> str:
        """Returns the table that a notebook shows, with the statistics."""
        from headgate._facts import table  # noqa: PLC0415 - as above
        from headgate._summary import progress_facts  # noqa: PLC0415 - as above

        return table(title, progress_facts(self.statistics(), "requests"))
