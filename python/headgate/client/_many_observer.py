"""Calls the hooks of a client, and logs, for many requests."""

from collections import deque
from typing import TYPE_CHECKING, Any

from headgate.client._errors import RequestError
from headgate.client._hook_calls import Calls
from headgate.client._observer import Observer
from headgate.client._outcome import Outcome, failed_with
from headgate.client._request import Native, RequestLike

if TYPE_CHECKING:
    from headgate import _native
    from headgate.client._client_options import ClientOptions


class ManyObserver:
    """Calls hooks and logs for the requests of `fetch_many`: as many as are outstanding."""

    def __init__(self, options: "ClientOptions") -> None:
        self._options = options
        self._observers: dict[int, Observer] = {}
        self._attempts: deque[tuple[int, _native.NativeAttempt]] = deque()

    def prepare(
        self, client: "_native.Client", number: int, requests: list[RequestLike], natives: list[Native]
    ) -> tuple[list[Native], bool]:
        """Calls the `request` hooks. Returns the requests as they are then, and whether their attempts are followed."""
        prepared, is_followed = [], False
        for index, (request, native) in enumerate(zip(requests, natives, strict=True), number):
            observer = self._observers[index] = Observer(self._options, request)
            is_followed |= observer.follows_attempts
            prepared.append(observer.prepare_one_of_many(client, native))
        return prepared, is_followed

    def take_attempts(self, completions: "_native.CompletionQueue") -> None:
        """Takes the attempts that have ended."""
        self._attempts.extend(completions.take_attempts())

    def stop_timing(self, number: int) -> None:
        """Ends the time of a request that is logged: its outcome has arrived."""
        if (observer := self._observers.get(number)) is not None:
            observer.stop_timing()

    def attempts(self) -> Calls[None]:
        """Logs the attempts that were taken, and calls the `attempt` hooks."""
        while self._attempts:
            number, attempt = self._attempts.popleft()
            if (observer := self._observers.get(number)) is not None:
                yield from observer.attempts([attempt])

    def outcome(self, outcome: Outcome[Any]) -> Calls[Outcome[Any]]:
        """Logs an outcome, and calls the `response` or the `error` hooks, once. A hook may make it fail."""
        observer = self._observers.pop(outcome.index, None)
        if observer is None:
            return outcome
        if outcome.error is None:
            try:
                yield from observer.response(outcome.response)
            except RequestError as error:
                outcome = failed_with(outcome, error)
        if outcome.error is not None:
            yield from observer.error(outcome.error)
        return outcome
