"""The source of a flow: an iterable or an async iterable, from which one item is pulled when a slot is free.

`pull()` never waits: it returns an item, `NOT_YET` (it calls back when it has one), or `END`, and raises an error of
the iterable. One separate task iterates and closes an async source, because an async generator must be closed by the
task that ran it.
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

_IN_MEMORY: Final[tuple[Iterable[Any], ...]] = ([], (), range(0), range(1 << 64), {}, set(), deque())
_NEVER_BLOCK: Final = frozenset(type(iter(each)) for each in _IN_MEMORY)
"""Types of iterators over items that are in memory or computed."""


class Source(Generic[T]):
    """An iterable, pulled one by one."""

    def __init__(self, items: Iterable[T]) -> None:
        self.iterator: Iterator[T] = iter(items)
        self.may_block: bool = type(self.iterator) not in _NEVER_BLOCK
        """Whether a pull may take a long time."""

    def open(self, have_more: Callable[[], None]) -> Callable[[], Any]:  # noqa: ARG002 - as in `AsyncSource`
        """Returns the function that pulls an item, or returns `END` when there are no more."""
        return partial(next, self.iterator, END)

    def close(self) -> None:
        """Does nothing: the caller may continue to use the iterable."""

    def remove_unpulled(self) -> list[T]:
        """Returns nothing, because no item is read before it is pulled."""
        return []

    @property
    def is_open(self) -> bool:
        """Whether a task of the source still runs."""
        return False

    def is_run_by(self, _task: object) -> bool:
        """Returns whether this task iterates the source."""
        return False


class AsyncSource(Generic[T]):
    """An async iterable, pulled one by one; an item is read only after a pull has requested it."""

    def __init__(self, items: AsyncIterable[T]) -> None:
        self._iterator: AsyncIterator[T] = aiter(items)
        self._next: Any = NOT_YET
        self._error: BaseException | None = None
        self._is_requested = False
        self._is_closing = False
        self._is_putting = False
        self._has_begun = False
        self._wake: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._have_more: Callable[[], None] = _nothing
        self.may_block: bool = True

    def open(self, have_more: Callable[[], None]) -> Callable[[], Any]:
        """Returns the function that pulls. After it returned `NOT_YET`, `have_more` is called when it has an item."""
        if self._is_closing:
            return self._pull
        self._have_more = have_more
        self._task = asyncio.get_running_loop().create_task(self._iterate())
        self._task.add_done_callback(self._on_task_done)
        return self._pull

    def close(self) -> None:
        """Cancels the task of the source, which calls `have_more` once more when the source has been closed.

        It cancels the task only once, because a second cancellation would interrupt its clean-up.
        """
        if self._is_closing:
            return
        self._is_closing = True
        task = self._task
        # A task that is cancelled before it begins would not close the source, and one that cancels itself would
        # interrupt the closing.
        if task is None or not self._has_begun or self._is_putting or task.get_loop().is_closed():
            return
        if task is asyncio.current_task(task.get_loop()):
            return
        task.cancel()

    def remove_unpulled(self) -> list[T]:
        """Removes and returns the item that was read and not pulled, if there is one."""
        item, self._next = self._next, NOT_YET
        return [] if item is NOT_YET else [item]

    @property
    def is_open(self) -> bool:
        """Whether the source still runs, or is still being closed."""
        return self._task is not None

    def is_run_by(self, task: object) -> bool:
        """Returns whether this task iterates the source."""
        return self._task is not None and task is self._task

    def _pull(self) -> Any:  # noqa: ANN401 - an item or a mark
        item, self._next = self._next, NOT_YET
        if item is NOT_YET:
            if self._task is None:
                return self._end()
            self._is_requested = True
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
                if not self._is_requested:
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
        if self._is_closing:  # an item that the source yields when it is cancelled, which will not be pulled any more
            if iscoroutine(item):
                item.close()
            return
        self._next = item
        self._is_requested = False  # only now, because a pull may have returned `NOT_YET` meanwhile
        self._is_putting = True
        self._have_more()
        self._is_putting = False

    async def _close_iterator(self) -> None:
        close = getattr(self._iterator, "aclose", None)
        if close is not None:
            try:
                closing = close()
                if isawaitable(closing):
                    await closing
            except BaseException as error:  # noqa: BLE001 - as above
                self._error = self._error or error

    def _on_task_done(self, _task: object) -> None:
        self._task = None
        if self._is_closing:
            self._error = None  # nothing is pulled any more
        have_more, self._have_more = self._have_more, _nothing  # drops the reference to the flow
        have_more()


def source_of(items: object, argument: str) -> Source[Any] | AsyncSource[Any]:
    """Returns the source for an argument.

    Raises:
        TypeError: The argument can't be iterated, or is text or a coroutine, which is surely a mistake.
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
