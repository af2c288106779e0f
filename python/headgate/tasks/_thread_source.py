"""A source whose iterable is pulled in a thread, so that it may block.

The thread reads at most `_READ_AHEAD` items before they are needed: as many as make a hand-over between threads cheap.
It ends and closes a generator when the flow closes the source. A pull in progress can't be interrupted, so nothing
waits for it: the thread ends after it, and as a daemon it doesn't delay the end of the program.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from inspect import isgenerator
from typing import Any, Final, Generic, TypeAlias, TypeVar

from headgate.tasks._source import END, NOT_YET, AsyncSource, Source, source_of

T = TypeVar("T")

_READ_AHEAD: Final = 64


class ThreadSource(Generic[T]):
    """An iterator, read in a thread."""

    def __init__(self, iterator: Iterator[T]) -> None:
        self._iterator = iterator
        self.may_block: bool = False
        self._items: deque[T] = deque()
        self._error: BaseException | None = None
        self._has_ended = False
        self._is_closing = False
        self._is_pulling = False  # the thread is inside the iterable
        self._is_awaited = False  # the flow waits for an item
        self._has_space = threading.Event()
        self._have_more: Callable[[], None] = _nothing
        self.is_open: bool = False
        """Whether the flow must wait for the end of the source."""

    def open(self, have_more: Callable[[], None]) -> Callable[[], Any]:
        """Starts the thread, in a copy of this context, and returns the function that pulls, as `AsyncSource` does."""
        if not self._is_closing:
            self._have_more = have_more
            self._loop = asyncio.get_running_loop()
            run = copy_context().run
            threading.Thread(target=run, args=(self._run,), name="headgate-source", daemon=True).start()
        return self._pull

    def close(self) -> None:
        """Ends the thread, and closes a generator; `have_more` is called once more if the flow must wait for that."""
        if self._is_closing:
            return
        self._is_closing = True
        self._has_space.set()
        if self._has_ended or self._is_pulling or self._have_more is _nothing:
            self._have_more = _nothing  # drops the reference to the flow
        else:
            self.is_open = True

    def remove_unpulled(self) -> list[T]:
        """Removes and returns the items that were read and not pulled, also after `close`."""
        return [self._items.popleft() for _ in range(len(self._items))]

    def is_run_by(self, _task: object) -> bool:
        """Returns whether this task iterates the source."""
        return False

    def _pull(self) -> Any:  # noqa: ANN401 - an item or a mark
        has_ended = self._has_ended  # read first, because the thread adds an item before it ends
        if not self._items:
            if has_ended:
                return self._end()
            self._is_awaited = True
            if not (self._items or self._has_ended):
                return NOT_YET
            return self._pull()
        if len(self._items) == _READ_AHEAD // 2:
            self._has_space.set()
        return self._items.popleft()

    def _end(self) -> Any:  # noqa: ANN401 - a mark
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # else its traceback, which has this frame, would be a cycle
        return END

    # -- in the thread

    def _run(self) -> None:
        try:
            self._read()
        except BaseException as error:  # noqa: BLE001 - the source's own, whatever it is; raised by the last pull
            self._error = error
        if self._is_closing and isgenerator(self._iterator):
            with suppress(BaseException):  # as those of an async source that is closed
                self._iterator.close()
        self._has_ended = True
        self._notify(self._on_end)

    def _read(self) -> None:
        while True:
            self._is_pulling = True
            if self._is_closing:
                self._is_pulling = False
                return
            item = next(self._iterator, END)
            self._is_pulling = False
            if item is END or self._is_closing:
                return
            self._items.append(item)  # type: ignore[arg-type] # it is not `END`
            if self._is_awaited:
                self._is_awaited = False
                self._notify(self._on_item)
            self._wait_for_space()

    def _wait_for_space(self) -> None:
        while len(self._items) >= _READ_AHEAD and not self._is_closing:
            self._has_space.clear()
            if len(self._items) >= _READ_AHEAD and not self._is_closing:
                self._has_space.wait()

    def _notify(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function)

    # -- in the loop

    def _on_item(self) -> None:
        self._have_more()

    def _on_end(self) -> None:
        self.is_open = False
        if self._is_closing:
            self._error = None  # nothing is pulled any more
        have_more, self._have_more = self._have_more, _nothing  # as above
        have_more()


AnySource: TypeAlias = Source[Any] | AsyncSource[Any] | ThreadSource[Any]


def thread_source_of(items: object, argument: str) -> ThreadSource[Any]:
    """Returns the source for an argument, pulled in a thread.

    Raises:
        TypeError: As `source_of`, or the argument is an async iterable.
    """
    source = source_of(items, argument)
    if isinstance(source, AsyncSource):
        raise TypeError(f"source_in_thread=True is for iterables, and {argument} is an async iterable: leave it out")
    return ThreadSource(source.iterator)


def _nothing() -> None:
    pass
