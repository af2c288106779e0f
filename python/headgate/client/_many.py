"""Many requests of a thread."""

from collections.abc import Iterable, Iterator
from threading import get_ident
from types import TracebackType
from typing import Final, Self, Unpack

from headgate.batches._batch_iterator import BatchIterator
from headgate.client._calls import Bulk
from headgate.client._engine import Engine
from headgate.client._flow import Flow
from headgate.client._outcome import Outcome
from headgate.client._request import Asked
from headgate.client._source import Source
from headgate.client._table_options import BATCHES, ResultKeywords
from headgate.jobs._progress import Progress, Told

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

    def __init__(
        self,
        engine: Engine,
        base_url: str,
        requests: Iterable[Asked] | None,
        *,
        ordered: bool,
        progress: Told = False,
    ) -> None:
        self._source = None if requests is None else Source(requests)
        self._progress = Progress(progress, engine.statistics)
        self._flow = Flow(engine, base_url, watched=False, ordered=ordered)
        self._stays_open = requests is None
        # Whoever made it, until somebody takes.
        self._taken_by = get_ident()
        self._bulk = Bulk(engine, base_url, progress)

    def submit(self, request: Asked) -> None:
        """Asks for one more, when its turn comes.

        The thread that takes outcomes, as a crawler does, never waits here: 1,000,000 may wait for their turn, and
        `room` says how many more. Another thread waits here while 10,000 do.

        >>> with client.fetch_many(["/redirect/1"]) as outcomes:
        ...     for outcome in outcomes:
        ...         print(outcome.unwrap().status_code)
        ...         if outcome.request.url != "/next":
        ...             outcomes.submit("/next")
        200
        200

        Raises:
            RuntimeError: It was closed.
            QueueFull: There is no room for more without waiting. The request was not taken: none is lost in silence.
        """
        self._flow.submitted.put(request, waits=self._taken_by != get_ident())
        self._flow.mailbox.ring()

    @property
    def room(self) -> int:
        """How many more may be submitted in the thread that takes outcomes.

        >>> client.fetch_many().room
        1000000
        """
        return self._flow.submitted.room

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

    @BATCHES.shown_by
    def batches(self, **options: Unpack[ResultKeywords]) -> BatchIterator:
        """The results as record batches, in place of outcomes: nothing of them becomes Python's.

        >>> batches = client.fetch_many(f"/{n}" for n in range(100)).batches(omit=["headers"])
        >>> pyarrow.table(batches).num_rows
        100

        Args:
            **options: `help(headgate.FetchMany.batches)` describes each with its default.

        Returns:
            An iterator over batches, which is a stream of them, too (`__arrow_c_stream__`). They have the columns of
            the results of `headgate.fetch`; `row` is the position of the request. Leaving its `with` block cancels
            what is in flight.

        Raises:
            UsageError: An option can't be.
            RuntimeError: Outcomes were taken, or requests submitted; it is closed; or it was made without requests.
        """
        flow = self._flow
        has_begun = flow.is_closed or flow.has_begun
        batches = self._bulk.batches(self._source, dict(options), has_begun=has_begun)
        self._source = None
        self._flow.close()
        return batches

    def close(self) -> None:
        """Cancels what is in flight. Again: nothing.

        >>> outcomes = client.fetch_many(["/hello"] * 10)
        >>> next(outcomes).unwrap().status_code
        200
        >>> outcomes.close()
        >>> list(outcomes)
        []
        """
        source, self._source = self._source, None
        self._flow.close()
        self._progress.leave()
        if source is not None:
            source.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Outcome:
        self._taken_by = get_ident()
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
            # Before what was submitted: whoever submits and finishes does so in this order.
            stays_open = self._stays_open
            if flow.room > 0 and flow.pull(self._source):
                self._source = None
            goes_on = self._source is not None or bool(flow.submitted)
            if not (flow.outstanding or goes_on or stays_open):
                break
            wait_s = 0.0 if goes_on and flow.room > 0 else min(LONGEST_WAIT_S, self._progress.due_in_s)
            flow.take_in(*flow.mailbox.wait(MOST, wait_s))
            self._progress.look()
        self._bulk.refuse_outcomes()
        self._progress.end()
        if flow.failure is not None:
            raise flow.failure
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
