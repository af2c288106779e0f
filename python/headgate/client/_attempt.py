"""An attempt of a request, for hooks."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headgate.client._prepared_request import PreparedRequest
from headgate.client._sent_request import sent_request

if TYPE_CHECKING:
    from headgate._native import NativeAttempt
    from headgate.client._request import RequestLike


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Attempt:
    """An attempt that has ended, which `attempt` hooks get. Redirects that it followed are part of it.

    >>> attempts = []
    >>> with headgate.Client(hooks={"attempt": attempts.append}, retries=1, retry_delay=0.01) as client:
    ...     response = client.get("http://127.0.0.1:8080/status/503")
    >>> [(attempt.number, attempt.status_code, attempt.will_retry) for attempt in attempts]
    [(1, 503, True), (2, 503, False)]
    >>> attempts[0], attempts[0].request
    (<Attempt 1: 503>, <PreparedRequest [GET] http://127.0.0.1:8080/status/503>)

    Attributes:
        number: Its number, from 1.
        started_at: When it began, in UTC.
        elapsed_s: How long it took, in seconds; of a streamed response, until the headers had arrived.
        waited_s: How long the request has waited before: since it was sent by its caller, or since the last attempt.
        status_code: The status; `None` if there was no response.
        error: The error kind, such as `connect`; `None` if there was none.
        message: The message of the error, or empty.
        http_version: The version of HTTP, such as `HTTP/1.1`; `None` if there was no response.
        remote_addr: The address and port of the connection; `None` if there was none.
        is_new_connection: Whether a connection was made for it.
        retry_in_s: Seconds until the next attempt, at the earliest; `None` if it is the last one.
    """

    __module__ = "headgate"

    number: int
    started_at: datetime
    elapsed_s: float
    waited_s: float
    status_code: int | None
    error: str | None
    message: str
    http_version: str | None
    remote_addr: str | None
    is_new_connection: bool
    retry_in_s: float | None

    @property
    def will_retry(self) -> bool:
        """Whether another attempt follows."""
        return self.retry_in_s is not None

    @cached_property
    def request(self) -> PreparedRequest:
        """The request as it was sent; the last one, if redirects were followed."""
        native, request, extensions = vars(self)["_source"]
        sent = sent_request(native, request)
        assert sent is not None, "a request that was sent could be made"  # noqa: S101 - for type checkers
        sent.extensions = extensions
        return sent

    def __repr__(self) -> str:
        return f"<Attempt {self.number}: {self.error or self.status_code}>"


def attempt_of(native: "NativeAttempt", request: "RequestLike", extensions: dict[str, Any]) -> Attempt:
    """Returns an attempt of the engine."""
    kind, message, detail = native.error or (None, "", None)
    attempt = Attempt(
        number=native.number,
        started_at=datetime.fromtimestamp(native.started_at_us / 1e6, UTC),
        elapsed_s=native.elapsed_s,
        waited_s=native.waited_s,
        status_code=native.status,
        error=kind,
        message=f"{message} ({detail})" if detail else message,
        http_version=native.http_version,
        remote_addr=native.remote_addr,
        is_new_connection=native.is_new_connection,
        retry_in_s=native.retry_in_s,
    )
    vars(attempt)["_source"] = native, request, extensions
    return attempt
