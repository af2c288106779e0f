"""Runs a coroutine on the virtual clock, and hears what Python mutters about work that was left lying about."""

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
    """What it returns; then nothing may be left running, and nothing may have been complained about.

    Complaints are what nobody could catch: a coroutine that was never awaited, an exception that was never retrieved, a
    task that was destroyed while it was pending, an error in a callback or a finalizer.
    """
    with _hearing_complaints() as complaints:
        return run_on_virtual_clock(_heard(main, complaints))


def fail_quietly(main: Coroutine[Any, Any, object], error: type[BaseException]) -> None:
    """Does so with what ends by an error, and takes the event loop with it."""
    with _hearing_complaints() as complaints, pytest.raises(error):
        run_on_virtual_clock(_heard(main, complaints))


@contextmanager
def _hearing_complaints() -> Iterator[list[str]]:
    complaints: list[str] = []
    gc.freeze()  # what others left is not looked at, which is also much faster
    hook = sys.unraisablehook
    sys.unraisablehook = lambda unraisable: complaints.append(f"{unraisable.err_msg}: {unraisable.exc_value!r}")
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield complaints
            gc.collect()
    finally:
        sys.unraisablehook = hook
        gc.unfreeze()
    complaints += [str(warning.message) for warning in warned]
    assert not complaints, complaints


async def _heard(main: Coroutine[Any, Any, T], complaints: list[str]) -> T:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(
        lambda _, context: complaints.append(f"{context['message']}: {context.get('exception')!r}")
    )
    return await main


class Spy:
    """Makes coroutines that sleep, and knows which were made, which run and how each one ended."""

    def __init__(self, default_s: float = 1.0) -> None:
        self._default_s = default_s
        self.made: list[Any] = []
        self.started: list[Any] = []
        self.returned: list[Any] = []
        self.cancelled: list[Any] = []
        self.peak = 0

    @property
    def running(self) -> int:
        """How many have started and not ended."""
        return len(self.started) - len(self.returned) - len(self.cancelled)

    def sleep(self, name: T, seconds: float | None = None, last_words_s: float = 0.0) -> Coroutine[Any, Any, T]:
        """Sleeps and gives its name; cancelled, it takes some time to end."""
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
    """An async iterator without end that knows whether it was closed, and by whom."""

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
