"""Receives the responses to the requests of an event loop, many at a time, through one descriptor that it watches."""

import asyncio
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import WeakKeyDictionary

from headgate import _mocks
from headgate._native import NativeAttempt, NativeCall, NativeOutcome
from headgate.batches._supply import MEMORY_CHECK_S, call_soon_in
from headgate.client._engine import Engine
from headgate.client._hook_calls import run_async
from headgate.client._request import NativeRequest
from headgate.client._watch import CallTimer
from headgate.jobs._notebook import await_interruptibly

if TYPE_CHECKING:
    from headgate.client._app import ServedApp
    from headgate.client._observer import Observer

_MAX_TAKEN: Final = 1024
"""The bound of responses that one iteration of the loop takes."""


_Future: TypeAlias = asyncio.Future[NativeOutcome]


class _Followed:
    """The attempts of a call that have ended, and an event for them and for the response."""

    __slots__ = ("attempts", "news")

    def __init__(self) -> None:
        self.attempts: deque[NativeAttempt] = deque()
        self.news = asyncio.Event()


class LoopResponses:
    """The requests and responses of one event loop. Only the thread of the loop uses it.

    It refers to the loop only while a response is awaited, because it lives as long as the loop does.

    A call gets a timer when it is first looked at, or if it has timeouts of its own. Calls with those of the client are
    first looked at in the order of their submission, so that most need no timer.
    """

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        completions = engine.native.completion_queue(watched=True)
        self.completions = completions if completions is not None else engine.raise_closed()
        self._engine = engine
        self._number = 0
        # Calls that tasks await, in the order of their submission, until they get a timer. Tuples are made the fastest.
        self._waiting: dict[int, tuple[_Future, NativeCall, NativeRequest]] = {}
        self._timed: dict[int, tuple[_Future, CallTimer]] = {}
        self._followed: dict[int, _Followed] = {}
        self._is_watched = True
        self._is_check_scheduled = False
        self._is_finishing = False
        loop.add_reader(self.completions.fileno(), self.take_arrived)
        self.take_arrived()

    async def send(self, request: NativeRequest, observer: "Observer | None" = None) -> NativeOutcome:
        """Sends a request, waits, and returns the response. The observer gets its attempts.

        Cancelling it, or an error of a hook, cancels the exchange.

        Raises:
            Exception: Whatever the application of the client raised in place of a response.
        """
        app: ServedApp | None = self._engine.options.app
        if app is None:
            return await self._send(request, observer)
        with app.called(request) as of_app:
            outcome = await self._send(of_app, observer)
        app.check(outcome)
        return outcome

    async def _send(self, request: NativeRequest, observer: "Observer | None") -> NativeOutcome:
        number = self._number
        self._number += 1
        is_followed = observer is not None and observer.follows_attempts
        call = self.completions.submit_call(number, request, is_followed)
        if call is None:
            self._engine.raise_closed()
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting[number] = (future, call, request)
        if request.own is not None:
            self._start_timer(loop, number)
        if not self._is_check_scheduled:
            self._is_check_scheduled = True
            loop.call_later(min(MEMORY_CHECK_S, call.next_look_s), self._check)
        try:
            if observer is not None and is_followed:
                return await self._follow(number, future, observer)
            return await await_interruptibly(future)
        except BaseException:
            if self._pop(number) is not None:
                call.cancel()
            self._retire_if_finished(loop)
            raise

    async def _follow(
        self, number: int, future: "asyncio.Future[NativeOutcome]", observer: "Observer"
    ) -> NativeOutcome:
        """Waits for the response, and passes attempts on as they end."""
        followed = self._followed[number] = _Followed()
        future.add_done_callback(lambda _: followed.news.set())
        try:
            while True:
                await await_interruptibly(followed.news.wait())
                followed.news.clear()
                while followed.attempts:
                    await run_async(observer.attempts([followed.attempts.popleft()]))
                if future.done():
                    return future.result()
        finally:
            del self._followed[number]

    def _start_timer(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        future, call, request = self._waiting.pop(number)
        self._timed[number] = future, CallTimer(loop, call, request, partial(self._deliver, number))

    def _pop(self, number: int) -> _Future | None:
        """Removes a call that is awaited, and stops its timer. Returns its future."""
        if (waiting := self._waiting.pop(number, None)) is not None:
            return waiting[0]
        if (timed := self._timed.pop(number, None)) is None:
            return None
        timed[1].cancel()
        return timed[0]

    def _deliver(self, number: int, outcome: NativeOutcome) -> None:
        future = self._pop(number)
        if future is not None and not future.done():
            future.set_result(outcome)

    def take_arrived(self) -> None:
        """Sets the results of the futures whose responses have arrived."""
        if not self._take() and _mocks.active() is not None:
            self._check_timers()
        if self._is_finishing:
            self._retire_if_finished(asyncio.get_running_loop())

    def _take(self) -> bool:
        """Takes responses that have arrived. Returns whether there were any."""
        arrived = self.completions.try_outcomes(_MAX_TAKEN)[0]
        if self._followed:
            # These are all attempts of what has arrived.
            for number, attempt in self.completions.take_attempts():
                if (followed := self._followed.get(number)) is not None:
                    followed.attempts.append(attempt)
                    followed.news.set()
        for number, outcome in arrived:
            # As `_deliver` does, without calls for those that have no timer.
            if (waiting := self._waiting.pop(number, None)) is None:
                self._deliver(number, outcome)
            elif not waiting[0].done():
                waiting[0].set_result(outcome)
        return bool(arrived)

    def _retire_if_finished(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_finishing and not self._waiting and not self._timed:
            self.retire(loop)

    def finish(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stops watching once all awaited responses have arrived: no more requests are sent here."""
        self._is_finishing = True
        self._retire_if_finished(loop)

    def _check_timers(self) -> None:
        """Looks at calls that are due on a virtual clock."""
        loop = asyncio.get_running_loop()
        for number in [number for number, (_, call, _) in self._waiting.items() if call.next_look_s <= 0]:
            self._start_timer(loop, number)
        for _, timer in list(self._timed.values()):
            timer.check()

    def _check(self) -> None:
        """Starts the timers of calls that are due, and returns memory of outcomes that no task takes."""
        self._is_check_scheduled = bool(self._waiting or self._timed) and self._is_watched
        if not self._is_check_scheduled:
            return
        # An awaited response may wait for that memory.
        self.completions.release_memory()
        loop, delay_s = asyncio.get_running_loop(), MEMORY_CHECK_S
        while self._waiting:
            number, (_, oldest, _) = next(iter(self._waiting.items()))
            due_s = oldest.next_look_s
            if due_s > 0:
                delay_s = min(delay_s, due_s)
                break
            self._start_timer(loop, number)
        loop.call_later(delay_s, self._check)

    def retire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Takes the responses that have arrived, fails the other requests, and stops watching. Idempotent."""
        if not self._is_watched:
            return
        self._is_watched = False
        loop.remove_reader(self.completions.fileno())
        while self._take():
            pass
        for number in [*self._waiting, *self._timed]:
            future = self._pop(number)
            if future is not None and not future.done():
                try:
                    self._engine.raise_closed()
                except RuntimeError as refusal:
                    future.set_exception(refusal)


class Loops:
    """The responses of all event loops that use a client. Any thread may use it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._process, self._changes = engine.process, engine.changes
        self._responses: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopResponses] = WeakKeyDictionary()
        # One for each process, as in `OpenStreams`. It is held while `_responses` is changed or listed.
        self._locks: dict[int, threading.RLock] = {}

    def of_running_loop(self) -> LoopResponses:
        """Returns the responses of the running loop.

        Raises:
            RuntimeError: The client is closed.
        """
        loop = asyncio.get_running_loop()
        if self._engine.is_closed:
            self._engine.raise_closed()
        if self._changes != self._engine.changes:
            self._start_over()
        responses = self._responses.get(loop)
        return responses if responses is not None else self._add(loop)

    def retire(self, running: asyncio.AbstractEventLoop | None = None) -> None:
        """Fails the awaited requests of all loops, and stops watching; at once for the `running` loop."""
        if self._process == self._engine.process:
            for loop, responses in self._listed():
                if loop is running:
                    responses.retire(loop)
                else:
                    call_soon_in(loop, responses.retire, loop)

    def _add(self, loop: asyncio.AbstractEventLoop) -> LoopResponses:
        responses = LoopResponses(self._engine, loop)
        with self._lock:
            # A loop that was closed while a response was awaited is still referred to.
            for other in list(self._responses):
                if other.is_closed():
                    del self._responses[other]
            self._responses[loop] = responses
        return responses

    def _start_over(self) -> None:
        """Starts with no responses in a fork, or after a mock has started or ended; earlier requests still finish."""
        with self._lock:
            if self._changes == self._engine.changes:
                return  # another thread has done so
            remaining = self._listed() if self._process == self._engine.process else []
            self._responses = WeakKeyDictionary()
            self._process, self._changes = self._engine.process, self._engine.changes
        for loop, responses in remaining:
            call_soon_in(loop, responses.finish, loop)

    def _listed(self) -> list[tuple[asyncio.AbstractEventLoop, LoopResponses]]:
        with self._lock:
            return list(self._responses.items())

    @property
    def _lock(self) -> "threading.RLock":
        return self._locks.setdefault(self._engine.process, threading.RLock())
