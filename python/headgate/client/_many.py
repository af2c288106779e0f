"""Many requests of a thread."""

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, Self

from headgate.client._engine import Engine
from headgate.client._flow import Flow
from headgate.client._outcome import Outcome
from headgate.client._request import Asked

LONGEST_WAIT_S: Final = 3600.0
"""Whatever happens rings before."""
MOST: Final = 1024
"""Outcomes that are taken at once."""


class FetchMany(Iterator[Outcome]):
    """Outcomes of many requests, as `Client.fetch_many` gives them. One thread iterates; any may submit.

    >>> with client.fetch_many(["/hello", "/status/404"], ordered=True) as outcomes:
    ...     print([outcome.unwrap().status_code for outcome in outcomes])
    [200, 404]
    """

    def __init__(self, engine: Engine, base_url: str, requests: Iterable[Asked] | None, *, ordered: bool) -> None:
        self._flow = Flow(engine, base_url, watched=False, ordered=ordered)
        self._source: Iterator[Asked] | None = None if requests is None else iter(requests)
        self._stays_open = requests is None

    def submit(self, request: Asked) -> None:
        """Asks for one more.

        >>> with client.fetch_many(["/redirect/1"]) as outcomes:
        ...     for outcome in outcomes:
        ...         print(outcome.unwrap().status_code)
        ...         if outcome.request.url != "/next":
        ...             outcomes.submit("/next")
        200
        200

        Raises:
            RuntimeError: It was closed.
        """
        if self._flow.is_closed:
            raise RuntimeError("these requests are closed: no more can be submitted")
        self._flow.submitted.append(request)
        self._flow.mailbox.ring()

    def finish(self) -> None:
        """No more is submitted: it ends when all is done. Needed where `fetch_many` was called without requests.

        >>> outcomes = client.fetch_many()
        >>> outcomes.submit("/hello")
        >>> outcomes.finish()
        >>> len(list(outcomes))
        1
        """
        self._stays_open = False
        self._flow.mailbox.ring()

    def close(self) -> None:
        """Cancels what is in flight. Again: nothing.

        >>> outcomes = client.fetch_many(["/hello"] * 10)
        >>> next(outcomes).unwrap().status_code
        200
        >>> outcomes.close()
        >>> list(outcomes)
        []
        """
        self._flow.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Outcome:
        try:
            return self._next()
        except BaseException:
            self.close()
            raise

    def _next(self) -> Outcome:
        flow = self._flow
        while not flow.is_closed:
            outcome = flow.pop()
            if outcome is not None:
                return outcome
            if flow.room > 0 and flow.pull(self._source):
                self._source = None
            goes_on = self._source is not None or bool(flow.submitted)
            if not (flow.outstanding or goes_on or self._stays_open):
                break
            wait_s = 0.0 if goes_on and flow.room > 0 else LONGEST_WAIT_S
            flow.take_in(*flow.mailbox.wait(MOST, wait_s))
        raise StopIteration

    def __repr__(self) -> str:
        return f"<headgate.FetchMany: {self._flow.state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_flow"):
            self.close()
