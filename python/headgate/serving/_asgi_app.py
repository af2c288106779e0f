"""An ASGI application, and how a client serves it."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from headgate._checks import kind_of

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiCallable: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI 3 application: it is called with a scope, `receive` and `send`."""

CONTEXT: Final = "headgate-context"
"""The header that says with which context variables a request is served. The application does not get it."""
EXCEPTION: Final = "exception of the app "
"""With this begins the detail of an error of the engine that stands for an exception of the application."""


class AsgiApp:
    """An ASGI application for `Client(app=...)`, with settings that are seldom needed.

    >>> async def app(scope, receive, send):
    ...     await send({"type": "http.response.start", "status": 200})
    ...     await send({"type": "http.response.body", "body": scope["root_path"].encode()})
    >>> with headgate.Client(app=headgate.AsgiApp(app, root_path="/v1")) as client:
    ...     print(client.get("/").text)
    /v1

    Attributes:
        app: The application.
        lifespan: Whether its startup and its shutdown are run.
        raise_app_exceptions: Whether a call raises what the application raises; if not, its response has status 500.
        root_path: The `root_path` of each scope.
        client: The address and the port of the client, in each scope.
    """

    __module__ = "headgate"

    def __init__(
        self,
        app: AsgiCallable,
        *,
        lifespan: bool = True,
        raise_app_exceptions: bool = True,
        root_path: str = "",
        client: tuple[str, int] | None = ("127.0.0.1", 50000),
    ) -> None:
        if not callable(app):
            raise TypeError(f"app must be an ASGI application, which is called with a scope, not {kind_of(app)}")
        self.app = app
        self.lifespan = lifespan
        self.raise_app_exceptions = raise_app_exceptions
        self.root_path = root_path
        self.client = client

    def __repr__(self) -> str:
        return f"<headgate.AsgiApp of {self.app!r}>"
