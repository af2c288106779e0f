"""What the user of a flow holds, whichever flow it is."""

from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from headgate.tasks._flow import NO_MORE, Flow

R = TypeVar("R")


class Face(Generic[R]):
    """What the user holds: an async iterator, and a block around it.

    When it is let go of, what it began is cancelled; so nothing that it began may refer to it.
    """

    _flow: Flow[Any]

    async def __aenter__(self) -> Self:
        self._flow.is_within_block = True
        if not self._flow.is_open:
            self._flow.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._flow.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        flow = self._flow
        ready = flow.ready
        if ready and not flow.is_stalled:
            result: R = ready.popleft()
            return result
        if not flow.is_open:
            flow.open()
        result = await flow.next()
        if result is NO_MORE:
            raise StopAsyncIteration
        return result

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._flow.describe()}>"

    async def aclose(self) -> None:
        """Cancels what runs and waits until it has ended; what was not collected is dropped.

        What runs is cancelled once: cancelling this too is raised when everything has ended. Only where another task
        has begun the iteration, whose part it is to wait, does it end the wait at once. Another task that iterates gets
        `ClosedEarly`.

        >>> pages = headgate.amap(fetch, ["a", "bb"], limit=1)
        >>> await anext(pages)
        'page of a'
        >>> await pages.aclose()

        Raises:
            RuntimeError: What runs waits for the task that calls this: neither would ever end.
        """
        await self._flow.close()

    def __del__(self) -> None:
        if hasattr(self, "_flow"):
            self._flow.abandon_from_anywhere()
