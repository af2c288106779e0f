"""Where work comes from: an iterable or an async iterable, from which one item is pulled when a slot is free.

`pull()` never waits: it returns an item, `NOT_YET` (it calls back when it has one), or
`END`; an error of what is iterated is raised by it. An async source is iterated, and closed, by one task of its own,
because an async generator must be finished where it was run.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from inspect import isawaitable, iscoroutine
from typing import Any, Final, Generic, TypeVar, cast

T = TypeVar("T")


class _Mark:
    __slots__ = ()


END: Final = _Mark()
NOT_YET: Final = _Mark()

_THERE_ALREADY: Final[tuple[Iterable[Any], ...]] = ([], (), range(0), range(1 << 64), {}, set(), deque())
_NEVER_BLOCK: Final = frozenset(type(iter(each)) for each in _THERE_ALREADY)
"""Iterators over what is there already."""


class Source(Generic[T]):
    """An iterable, pulled one by one."""

    def __init__(self, items: Iterable[T]) -> None:
        self._iterator: Iterator[T] = iter(items)
        self.may_block: bool = type(self._iterator) not in _NEVER_BLOCK
        """Whether a pull may take long."""

    def open(self, have_more: Callable[[], None]) -> Callable[[], Any]:  # noqa: ARG002 - as that of the other
        """Gives the function to pull with: `END` where there is no more."""
        return partial(next, self._iterator, END)

    def close(self) -> None:
        """Nothing to do: the caller may go on with the iterable."""

    def take_back(self) -> Any:  # noqa: ANN401 - an item or a mark
        """`NOT_YET`: nothing is read before it is pulled."""
        return NOT_YET

    @property
    def is_open(self) -> bool:
        """Whether something of the source still runs."""
        return False

    def is_run_by(self, _task: object) -> bool:
        """Whether it is this task that iterates the source."""
        return False


class AsyncSource(Generic[T]):
    """An async iterable, pulled one by one; an item is read when it is wanted, and not before."""

    def __init__(self, items: AsyncIterable[T]) -> None:
        self._iterator: AsyncIterator[T] = aiter(items)
        self._next: Any = NOT_YET
        self._error: BaseException | None = None
        self._is_wanted = False
        self._is_closing = False
        self._is_giving = False
        self._has_begun = False
        self._wake: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._have_more: Callable[[], None] = _nothing
        self.may_block: bool = True

    def open(self, have_more: Callable[[], None]) -> Callable[[], Any]:
        """Gives the function to pull with; after `NOT_YET`, `have_more` is called when it is worth asking again."""
        if self._is_closing:
            return self._pull
        self._have_more = have_more
        self._task = asyncio.get_running_loop().create_task(self._iterate())
        self._task.add_done_callback(self._ended)
        return self._pull

    def close(self) -> None:
        """Stops the source where it is; `have_more` is called once more when it has been closed.

        Once, because a second time would cancel it while it cleans up.
        """
        if self._is_closing:
            return
        self._is_closing = True
        task = self._task
        # Cancelled before it has begun, it would not close the source; and itself it would cancel while it closes it.
        if task is None or not self._has_begun or self._is_giving or task is asyncio.current_task(task.get_loop()):
            return
        task.cancel()

    def take_back(self) -> Any:  # noqa: ANN401 - an item or a mark
        """The item that was read and not pulled, because what it was wanted for was needed elsewhere; or `NOT_YET`."""
        item, self._next = self._next, NOT_YET
        return item

    @property
    def is_open(self) -> bool:
        """Whether the source still runs, or is still being closed."""
        return self._task is not None

    def is_run_by(self, task: object) -> bool:
        """Whether it is this task that iterates the source."""
        return self._task is not None and task is self._task

    def _pull(self) -> Any:  # noqa: ANN401 - an item or a mark
        item, self._next = self._next, NOT_YET
        if item is NOT_YET:
            if self._task is None:
                return self._end()
            self._is_wanted = True
            if self._wake is not None and not self._wake.done():
                self._wake.set_result(None)
        return item

    def _end(self) -> _Mark:
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # else its traceback, which has this frame, would be a cycle
        return END

    async def _iterate(self) -> None:
        self._has_begun = True
        try:
            while not self._is_closing:
                if not self._is_wanted:
                    self._wake = asyncio.get_running_loop().create_future()
                    await self._wake
                    self._wake = None
                try:
                    item = await anext(self._iterator)
                except StopAsyncIteration:
                    return
                self._put(item)
        except BaseException as error:  # noqa: BLE001 - the source's own, whatever it is; raised by the next pull
            self._error = error
        finally:
            await self._close_iterator()

    def _put(self, item: T) -> None:
        if self._is_closing:  # what the source yields when it is stopped, which will not be pulled any more
            if iscoroutine(item):
                item.close()
            return
        self._next = item
        self._is_wanted = False  # not before: it may have been pulled in vain meanwhile
        self._is_giving = True
        self._have_more()
        self._is_giving = False

    async def _close_iterator(self) -> None:
        close = getattr(self._iterator, "aclose", None)
        if close is not None:
            try:
                closing = close()
                if isawaitable(closing):
                    await closing
            except BaseException as error:  # noqa: BLE001 - as above
                self._error = self._error or error

    def _ended(self, _task: object) -> None:
        self._task = None
        if self._is_closing:
            self._error = None  # nothing is pulled any more
        have_more, self._have_more = self._have_more, _nothing  # it refers to the flow that pulls
        have_more()


def source_of(items: object, argument: str) -> Source[Any] | AsyncSource[Any]:
    """The source that an argument is.

    Raises:
        TypeError: It can't be iterated, or is text or a coroutine, which is surely a mistake.
    """
    if isinstance(items, (str, bytes, bytearray)):
        raise TypeError(
            f"{argument} is a {type(items).__name__}, which is one value: give a list of them, [{argument}]"
        )
    if iscoroutine(items) or asyncio.isfuture(items):
        if iscoroutine(items):
            items.close()
        raise TypeError(
            f"{argument} is one piece of work, a {type(items).__name__}: give an iterable, as a list or a generator"
        )
    if isinstance(items, AsyncIterable):
        return AsyncSource(items)
    try:
        return Source(cast("Iterable[Any]", items))
    except TypeError:
        raise TypeError(f"{argument} must be an iterable or an async iterable, not {type(items).__name__}") from None


def _nothing() -> None:
    pass
