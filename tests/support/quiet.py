"""Runs a coroutine on the virtual clock, and fails if Python reports work that was left behind."""

import asyncio
import gc
import sys
import warnings
from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import pytest

from support.virtual_clock import run_on_virtual_clock

T = TypeVar("T")


def run_quietly(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine and returns its result; fails if a task is left running or Python reports a problem.

    Python reports what no code can catch: a coroutine that was never awaited, an exception that was never retrieved, a
    task that was destroyed while it was pending, an error in a callback or a finalizer.
    """
    with _collecting_reports() as reports:
        return run_on_virtual_clock(_with_reports(main, reports))


def fail_quietly(main: Coroutine[Any, Any, object], error: type[BaseException]) -> None:
    """Runs a coroutine that must end with an error that also ends the event loop; the rest is as in `run_quietly`."""
    with _collecting_reports() as reports, pytest.raises(error):
        run_on_virtual_clock(_with_reports(main, reports))


@contextmanager
def _collecting_reports() -> Iterator[list[str]]:
    reports: list[str] = []
    gc.freeze()  # the collector skips what earlier tests left behind, which is also much faster
    hook = sys.unraisablehook
    sys.unraisablehook = lambda unraisable: reports.append(f"{unraisable.err_msg}: {unraisable.exc_value!r}")
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield reports
            gc.collect()
    finally:
        sys.unraisablehook = hook
        gc.unfreeze()
    reports += [str(warning.message) for warning in warned]
    assert not reports, reports


async def _with_reports(main: Coroutine[Any, Any, T], reports: list[str]) -> T:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reports.append(f"{context['message']}: {context.get('exception')!r}"))
    return await main


class Spy:
    """Makes coroutines that sleep, and records which were made, which run and how each one ended."""

    def __init__(self, default_s: float = 1.0) -> None:
        self._default_s = default_s
        self.made: list[Any] = []
        self.started: list[Any] = []
        self.returned: list[Any] = []
        self.cancelled: list[Any] = []
        self.peak = 0

    @property
    def running(self) -> int:
        """Returns how many have started and not ended."""
        return len(self.started) - len(self.returned) - len(self.cancelled)

    def sleep(self, name: T, seconds: float | None = None, last_words_s: float = 0.0) -> Coroutine[Any, Any, T]:
        """Returns a coroutine that sleeps and returns its name; when cancelled, it takes `last_words_s` to end."""
        self.made.append(name)
        return self._sleep(name, self._default_s if seconds is None else seconds, last_words_s)

    async def _sleep(self, name: T, seconds: float, last_words_s: float) -> T:
        self.started.append(name)
        self.peak = max(self.peak, self.running)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            try:
                if last_words_s:
                    await asyncio.sleep(last_words_s)
            finally:
                self.cancelled.append(name)
            raise
        self.returned.append(name)
        return name


class Source:
    """An endless async iterator that counts how often it was closed; the task that reads it must close it."""

    def __init__(self, spy: Spy, every_s: float = 0.0, closing_s: float = 0.0) -> None:
        self._spy = spy
        self._every_s = every_s
        self._closing_s = closing_s
        self._pulled_by: set[object] = set()
        self.closed = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Awaitable[int]:
        self._pulled_by.add(asyncio.current_task())
        await asyncio.sleep(self._every_s)
        return self._spy.sleep(len(self._spy.made))

    async def aclose(self) -> None:
        assert self._pulled_by <= {asyncio.current_task()}
        await asyncio.sleep(self._closing_s)
        self.closed += 1
