"""An iterator that any number of threads share.

One thread at a time drives it: it starts work and waits for results. The others wait until there are results, or until
the driver has left. A thread that finds a result wakes the next one, so that no result wakes all of them. What only one
thread may touch, such as the iterable of the caller, only the driver touches, and so the driver also closes it.
"""

import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")


class SharedIterator(Iterator[T]):
    """An iterator and context manager that threads share.

    Each result goes to one thread. At the end, and after `close`, all threads get `StopIteration`. An error is raised
    in one thread, and ends the iteration in the others.
    """

    def __init__(self) -> None:
        # A reentrant lock, because a signal handler may close this in a thread that holds it.
        self._changed = threading.Condition(threading.RLock())
        self._driver: int | None = None
        self._is_closed = False
        self._process = os.getpid()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        self._check_caller()
        try:
            while not self._is_closed:
                result = self._pop()
                if result is None:
                    result = self._drive(self._advance)
                if result is not None:
                    return result
        except BaseException:
            self.close()
            raise
        raise self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # At the end of the program, modules may be gone.
        if hasattr(self, "_process") and hasattr(os, "getpid"):
            self.close()

    def close(self) -> None:
        """Cancels what is in flight, and ends the iteration in all threads. Idempotent.

        If another thread reads the source now, that thread closes the source afterwards.
        """
        if self._process != os.getpid():
            return  # in a fork, a thread that does not exist there may hold the lock
        with self._changed:
            self._is_closed = True
            is_driven = self._driver not in (None, threading.get_ident())
            self._changed.notify_all()
        self._cancel()
        if not is_driven:
            self._release()

    @abstractmethod
    def _advance(self) -> T | None:
        """Starts work and waits for a result, as the only thread; it may also return `None`, and raises the end."""

    @abstractmethod
    def _cancel(self) -> None:
        """Cancels what is in flight, from any thread. Idempotent."""

    @abstractmethod
    def _release(self) -> None:
        """Closes the source and drops results, after the end and while no thread drives. Idempotent."""

    def _pop(self) -> T | None:
        """Removes and returns a result that is ready, from any thread."""
        return None

    def _has_ready(self) -> bool:
        """Returns whether a result is ready."""
        return False

    def _end(self) -> Exception:
        """Returns the error that ends the iteration after the last result."""
        return StopIteration()

    def _drive(self, step: Callable[[], T | None]) -> T | None:
        """Calls a function that only the driver may call, or waits for the driver: then it may return `None`, too."""
        if self._process != os.getpid():
            return step()  # it raises the error of a fork, where a thread of the parent would be waited for
        if not self._try_enter():
            return None
        try:
            return step()
        except BaseException:
            self.close()  # before another thread drives, and finds the same error
            raise
        finally:
            with self._changed:
                self._driver, is_closed = None, self._is_closed
                self._changed.notify()
            if is_closed:
                self._release()

    def _try_enter(self) -> bool:
        """Waits until this thread must drive, and returns true, or until there is something to look at."""
        self._check_caller()
        with self._changed:
            while not (self._is_closed or self._has_ready() or self._driver is None):
                self._changed.wait()
            if self._is_closed:
                return False
            if self._has_ready():
                self._changed.notify()
                return False
            self._driver = threading.get_ident()
            return True

    def _check_caller(self) -> None:
        if self._driver == threading.get_ident():
            raise RuntimeError("the source of these requests, or their progress function, can't take their results")
